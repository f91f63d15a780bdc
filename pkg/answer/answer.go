// Package answer writes the output of a command: text for people, or an object that names
// its schema for programs.
package answer

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/tulle-net/tulle/pkg/flags"
)

// Format is the format of an answer.
type Format string

// The formats.
const (
	Text Format = "text"
	JSON Format = "json"
	YAML Format = "yaml"
)

// Formats returns the names of all formats.
func Formats() []string { return []string{string(Text), string(JSON), string(YAML)} }

// ReadFormat reads the name of a format.
func ReadFormat(value string) (Format, error) {
	if !slices.Contains(Formats(), value) {
		return "", flags.Refuse(value, "unknown output format", "use text, json or yaml")
	}
	return Format(value), nil
}

// SchemaVersion is the version of all schemas. Within a version, releases may add fields
// and codes. They neither remove one nor change its meaning.
const SchemaVersion = "v1"

// Write calls text in the Text format. In the others, it writes the struct what as an
// object whose first field names its schema.
func Write(f Format, out io.Writer, kind string, what any, text func() error) error {
	if f != JSON && f != YAML {
		return text()
	}
	fields, err := json.Marshal(what)
	if err != nil {
		return err
	}
	first, err := json.Marshal(map[string]string{"schema": "tulle." + kind + "/" + SchemaVersion})
	if err != nil {
		return err
	}
	whole := append(first[:len(first)-1:len(first)-1], ',')
	if whole = append(whole, fields[1:]...); string(fields) == "{}" {
		whole = first
	}
	if f == YAML {
		whole, err = yaml.JSONToYAML(whole)
	} else {
		var indented bytes.Buffer
		err = json.Indent(&indented, whole, "", "  ")
		indented.WriteByte('\n')
		whole = indented.Bytes()
	}
	if err != nil {
		return err
	}
	_, err = out.Write(whole)
	return err
}
