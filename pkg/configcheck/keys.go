package configcheck

import (
	"bytes"
	"encoding/json"
	"strings"
)

// entry is one key of a JSON object, as it is written, and its value.
type entry struct {
	key   string
	value json.RawMessage
}

// entries returns the keys of a JSON object in their order, equal ones too. It
// returns those before the first that it cannot read.
func entries(object []byte) (all []entry) {
	d := json.NewDecoder(bytes.NewReader(object))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil
	}
	for d.More() {
		token, err := d.Token()
		key, isKey := token.(string)
		var value json.RawMessage
		if err != nil || !isKey || d.Decode(&value) != nil {
			return all
		}
		all = append(all, entry{key, value})
	}
	return all
}

// is reports whether the entry sets a key. The case of a key does not matter.
func (e entry) is(key string) bool { return strings.EqualFold(e.key, key) }

// isSet reports whether the value is not null, which counts as left out.
func (e entry) isSet() bool { return string(e.value) != "null" }

// last returns the value that counts of a key, the last one; nil where there is
// none.
func last(all []entry, key string) json.RawMessage {
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].is(key) {
			return all[i].value
		}
	}
	return nil
}

// named returns the one of keys that key is, as the documentation writes it.
func named(key string, keys []string) (name string, ok bool) {
	for _, k := range keys {
		if strings.EqualFold(k, key) {
			return k, true
		}
	}
	return "", false
}
