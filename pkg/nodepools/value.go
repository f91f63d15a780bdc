package nodepools

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tulle-net/tulle/pkg/flags"
)

// value is a value of the file, and the path to it. Its methods convert it, or return an
// error that names the path.
type value struct {
	path string
	is   any // from encoding/json, with json.Number
}

// wrong returns an error about v.
func (v value) wrong(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if v.path == "" {
		return fmt.Errorf("%s", text)
	}
	return fmt.Errorf("%s: %s", v.path, text)
}

// kind returns what v is, for people.
func (v value) kind() string {
	switch is := v.is.(type) {
	case nil:
		return "empty"
	case string:
		return fmt.Sprintf("the text %.40q", is)
	case json.Number:
		return fmt.Sprintf("the number %.40s", is)
	case bool:
		return strconv.FormatBool(is)
	case []any:
		return "a list"
	}
	return "an object"
}

// fields returns the fields of an object. It refuses an unknown field.
func (v value) fields(known ...string) (map[string]value, error) {
	object, ok := v.is.(map[string]any)
	if !ok {
		return nil, v.wrong("is %s; write an object with %s", v.kind(), strings.Join(known, ", "))
	}
	all := make(map[string]value)
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(known, key) {
			return nil, v.wrong("unknown key %.60q; %s", key, flags.DidYouMean(flags.Nearest(key, known), "use "+strings.Join(known, ", ")))
		}
		all[key] = value{v.at(key), object[key]}
	}
	return all, nil
}

// at returns the path of a field.
func (v value) at(key string) string {
	if v.path == "" {
		return key
	}
	return v.path + "." + key
}

// items returns the items of a list. It refuses more than most.
func (v value) items(most int) (all []value, err error) {
	list, ok := v.is.([]any)
	switch {
	case !ok:
		return nil, v.wrong("is %s; write a list", v.kind())
	case len(list) > most:
		return nil, v.wrong("has %d items; the limit is %d", len(list), most)
	}
	for i, is := range list {
		all = append(all, value{fmt.Sprintf("%s[%d]", v.path, i), is})
	}
	return all, nil
}

func (v value) text() (string, error) {
	is, ok := v.is.(string)
	switch v.is.(type) {
	case json.Number, bool:
		return "", v.wrong("is %s; put it in quotes", v.kind())
	}
	if !ok {
		return "", v.wrong("is %s; write a text", v.kind())
	}
	return is, nil
}

// whole returns a whole number, which must be from least to most.
func (v value) whole(least, most int) (int, error) {
	is, _ := v.is.(json.Number)
	n, err := strconv.Atoi(string(is))
	if err != nil || n < least || n > most {
		return 0, v.wrong("is %s; write a number from %d to %d", v.kind(), least, most)
	}
	return n, nil
}

func (v value) yes() (bool, error) {
	is, ok := v.is.(bool)
	if !ok {
		return false, v.wrong("is %s; write true or false", v.kind())
	}
	return is, nil
}
