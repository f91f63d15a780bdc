package subnet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Backend is the config's choice of how subnets reach one another.
type Backend struct {
	Type string // in lower case
	// Raw is the whole Backend object as compact JSON, for the backend to Decode. It
	// is a string, so that configs can be compared. It may hold secrets.
	Raw string
}

// ParseBackend reads a Backend as a config has it.
func ParseBackend(raw []byte) (Backend, error) { return parseBackend(raw) }

// Format returns b as a config has it.
func (b Backend) Format() string {
	if b.Raw != "" {
		return b.Raw
	}
	return `{"Type":"` + b.Type + `"}` // of a config without a Backend
}

// parseBackend reads the config's Backend.
func parseBackend(raw json.RawMessage) (Backend, error) {
	if isNull(raw) {
		return Backend{Type: "vxlan"}, nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return Backend{}, &ConfigError{Key: "Backend", Why: err.Error(), Fix: "write valid JSON"}
	}
	b := Backend{Raw: compact.String()}
	var keys struct{ Type string }
	if err := b.Decode(&keys); err != nil {
		return Backend{}, err
	}
	if keys.Type == "" {
		return Backend{}, &ConfigError{
			Key: "Backend.Type",
			Why: "no type",
			Fix: `set it to one like "vxlan", or leave Backend out for vxlan`,
		}
	}
	b.Type = strings.ToLower(keys.Type)
	return b, nil
}

// Decode reads the backend's own keys into a struct of plain fields. The struct holds
// the defaults; keys that it lacks are ignored. The error is a *ConfigError that
// names the key.
func (b Backend) Decode(into any) error {
	if b.Raw == "" {
		return nil
	}
	err := json.Unmarshal([]byte(b.Raw), into)
	if err == nil {
		return nil
	}
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) || wrong.Field == "" {
		return &ConfigError{Key: "Backend", Why: "not a JSON object", Fix: `write one like {"Type": "vxlan"}`}
	}
	kind := describe(wrong.Type)
	refusal := &ConfigError{Key: "Backend." + wrong.Field, Why: "not " + kind, Fix: "write " + kind}
	// A key meant to be text may be a secret, like a pre-shared key.
	if wrong.Type.Kind() != reflect.String {
		refusal.Value = b.value(wrong.Field)
	}
	return refusal
}

// value returns the value of key, as errors show it.
func (b Backend) value(key string) string {
	var all map[string]json.RawMessage
	// Decode has reported any error.
	_ = json.Unmarshal([]byte(b.Raw), &all)
	for k, raw := range all {
		if strings.EqualFold(k, key) {
			return shown(raw)
		}
	}
	return ""
}

// describe returns what values a field takes, for an error.
func describe(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text in quotes"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return fmt.Sprintf("a whole number from 0 to %d", ^uint64(0)>>(64-t.Bits()))
	}
	return "of the kind that this key takes"
}
