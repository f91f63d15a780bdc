package awstest

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// These limit a form. The largest one of a client lists 1,000 IDs.
const (
	maxBody   = 1 << 20
	maxFields = 20000
	maxDepth  = 12
)

// form is a node of a query's parameters: Filter.2.Value.1=x is the value x at Filter,
// 2, Value, 1. The zero form is empty.
type form struct {
	value string
	set   bool
	kids  map[string]*form
}

// parseForm reads the body of a query.
func parseForm(body string) (*form, *Error) {
	if len(body) > maxBody {
		return nil, bad("RequestEntityTooLarge", "The request has %d bytes, more than %d", len(body), maxBody)
	}
	root := &form{}
	fields := 0
	for pair := range strings.SplitSeq(body, "&") {
		if pair == "" {
			continue
		}
		if fields++; fields > maxFields {
			return nil, bad("MalformedQueryString", "The query string has more than %d parameters", maxFields)
		}
		k, v, _ := strings.Cut(pair, "=")
		key, err := url.QueryUnescape(k)
		if err != nil {
			return nil, bad("MalformedQueryString", "The query string contains a malformed name: %q", k)
		}
		value, err := url.QueryUnescape(v)
		if err != nil {
			return nil, bad("MalformedQueryString", "The query string contains a malformed value of %q", key)
		}
		path := strings.Split(key, ".")
		if len(path) > maxDepth || slices.Contains(path, "") {
			return nil, bad("MalformedQueryString", "The query string contains a malformed name: %q", key)
		}
		n := root
		for _, element := range path {
			next := n.kids[element]
			if next == nil {
				if n.kids == nil {
					n.kids = make(map[string]*form)
				}
				next = &form{}
				n.kids[element] = next
			}
			n = next
		}
		if n.set {
			return nil, bad("MalformedQueryString", "The parameter %s has two values", key)
		}
		n.value, n.set = value, true
	}
	return root, nil
}

// at returns the node below with a name, or an empty one.
func (f *form) at(path ...string) *form {
	for _, element := range path {
		next := f.kids[element]
		if next == nil {
			return &form{}
		}
		f = next
	}
	return f
}

// has reports whether the form has a value or nodes below.
func (f *form) has(name string) bool { return f.kids[name] != nil }

func (f *form) text(name string) string { return f.at(name).value }

// list returns the numbered nodes below, in order.
func (f *form) list(name string) []*form {
	type numbered struct {
		n int
		f *form
	}
	var found []numbered
	for key, kid := range f.at(name).kids {
		if n, err := strconv.Atoi(key); err == nil && n >= 0 {
			found = append(found, numbered{n, kid})
		}
	}
	slices.SortFunc(found, func(a, b numbered) int { return a.n - b.n })
	kids := make([]*form, len(found))
	for i, x := range found {
		kids[i] = x.f
	}
	return kids
}

// texts returns the values of a list.
func (f *form) texts(name string) []string {
	var all []string
	for _, kid := range f.list(name) {
		all = append(all, kid.value)
	}
	return all
}

// truth returns a Boolean parameter.
func (f *form) truth(name string, otherwise bool) (bool, error) {
	switch v := f.text(name); {
	case !f.has(name):
		return otherwise, nil
	case strings.EqualFold(v, "true"):
		return true, nil
	case strings.EqualFold(v, "false"):
		return false, nil
	default:
		return false, bad("InvalidParameterValue", "Invalid value '%s' for %s. It must be true or false", v, name)
	}
}

// number returns a parameter that is a number.
func (f *form) number(name string, otherwise int) (int, error) {
	if !f.has(name) {
		return otherwise, nil
	}
	n, err := strconv.Atoi(f.text(name))
	if err != nil {
		return 0, bad("InvalidParameterValue", "Invalid value '%s' for %s. It must be a number", f.text(name), name)
	}
	return n, nil
}

// want returns a required parameter.
func (f *form) want(name string) (string, error) {
	if v := f.text(name); v != "" {
		return v, nil
	}
	return "", bad("MissingParameter", "The request must contain the parameter %s", name)
}

// flat returns the parameters as the client sent them.
func (f *form) flat() map[string]string {
	all := make(map[string]string)
	f.walk("", func(name, value string) { all[name] = value })
	return all
}

func (f *form) walk(name string, found func(name, value string)) {
	if f.set {
		found(name, f.value)
	}
	for key, kid := range f.kids {
		if name != "" {
			key = name + "." + key
		}
		kid.walk(key, found)
	}
}

// print returns the parameters, without those in leave, as a text that is equal for equal forms.
func (f *form) print(leave ...string) string {
	all := f.flat()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !slices.Contains(leave, name) {
			fmt.Fprintf(&b, "%s=%s&", url.QueryEscape(name), url.QueryEscape(all[name]))
		}
	}
	return b.String()
}
