package awstest

import (
	"strings"
)

// attributes are the filters of a kind of objects.
type attributes[T any] map[string]func(*request, T) []string

// filter is a filter of a request. An object matches if one of its values does.
type filter[T any] struct {
	get    func(*request, T) []string
	plain  map[string]bool
	shaped []string // with wildcards
}

// filters returns the filters of a request.
func filters[T object](r *request, known attributes[T]) ([]filter[T], error) {
	var all []filter[T]
	for _, f := range r.form.list("Filter") {
		name := f.text("Name")
		one := filter[T]{get: known[name]}
		if key, ok := strings.CutPrefix(name, "tag:"); ok {
			one.get = func(_ *request, o T) []string { return o.base().valueOf(key) }
		} else if name == "tag-key" {
			one.get = func(_ *request, o T) []string { return o.base().keys() }
		}
		if one.get == nil {
			return nil, bad("InvalidParameterValue", "The filter '%s' is invalid", name)
		}
		values := f.texts("Value")
		if len(values) == 0 {
			return nil, bad("InvalidParameterValue", "The filter '%s' has no values", name)
		}
		if len(values) > 200 {
			return nil, bad("FilterLimitExceeded", "The maximum number of filter values specified on a single call is 200.")
		}
		one.plain = make(map[string]bool)
		for _, v := range values {
			if strings.ContainsAny(v, `*?\`) {
				one.shaped = append(one.shaped, v)
			} else {
				one.plain[v] = true
			}
		}
		all = append(all, one)
	}
	return all, nil
}

func (f *filter[T]) fits(r *request, o T) bool {
	for _, v := range f.get(r, o) {
		if f.plain[v] {
			return true
		}
		for _, shape := range f.shaped {
			if like(shape, v) {
				return true
			}
		}
	}
	return false
}

// like reports whether a text matches a pattern: * is any text, ? is any character, and a
// backslash escapes the next character.
func like(pattern, text string) bool {
	// star is where the last * began, and how much of the text it holds.
	p, t, star, held := 0, 0, -1, 0
	for t < len(text) {
		if p < len(pattern) {
			switch c := pattern[p]; {
			case c == '*':
				star, held = p, t
				p++
				continue
			case c == '?':
				p, t = p+1, t+1
				continue
			case c == '\\' && p+1 < len(pattern) && pattern[p+1] == text[t]:
				p, t = p+2, t+1
				continue
			case c != '\\' && c == text[t]:
				p, t = p+1, t+1
				continue
			}
		}
		if star < 0 {
			return false
		}
		held++
		p, t = star+1, held
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// one returns a value as a list, which is empty for an empty value.
func one(v string) []string {
	if v == "" {
		return nil
	}
	return []string{v}
}

func yes(v bool) []string {
	if v {
		return []string{"true"}
	}
	return []string{"false"}
}
