package awstest

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

// kind describes how to list the objects of a kind.
type kind[T object] struct {
	ids     string // the form's list of IDs
	set     string // the answer's
	least   int    // the bounds of a page
	most    int
	missing func(id string) *Error
	by      attributes[T]
	write   func(*request, T)
	// hidden, if set, reports whether a describe shows an object only if the request names
	// it.
	hidden func(T) bool
}

// describe answers with a list of the requested objects.
func describe[T object](r *request, s *shelf[T], k *kind[T]) error {
	found, next, err := pick(r, s, k)
	if err != nil {
		return err
	}
	items(r.x, k.set, found, func(o T) { k.write(r, o) })
	r.x.text("nextToken", next)
	return nil
}

// pick returns one page of the requested objects.
func pick[T object](r *request, s *shelf[T], k *kind[T]) (found []T, next string, err error) {
	size, after, err := r.page(k.ids, k.least, k.most)
	if err != nil {
		return nil, "", err
	}
	tests, err := filters(r, k.by)
	if err != nil {
		return nil, "", err
	}
	from := s.order
	ids := r.form.texts(k.ids)
	if len(ids) > 0 {
		if from, err = byIDs(r, s, k, ids); err != nil {
			return nil, "", err
		}
	}
objects:
	for _, o := range from {
		m := o.base()
		if m.seq <= after || !r.seen(m.made) || len(ids) == 0 && k.hidden != nil && k.hidden(o) {
			continue
		}
		for i := range tests {
			if !tests[i].fits(r, o) {
				continue objects
			}
		}
		if len(ids) == 0 && size > 0 && len(found) == size {
			return found, r.token(found[size-1].base().seq), nil
		}
		found = append(found, o)
	}
	return found, "", nil
}

// byIDs returns the objects with these IDs, each once. It returns an error for an ID that does
// not exist.
func byIDs[T object](r *request, s *shelf[T], k *kind[T], ids []string) ([]T, error) {
	var found []T
	var none []string
	given := make(map[string]bool)
	for _, id := range ids {
		if given[id] {
			continue
		}
		given[id] = true
		o, ok := s.byID[id]
		if !ok || !r.seen(o.base().made) {
			none = append(none, id)
			continue
		}
		found = append(found, o)
	}
	if len(none) == 0 {
		return found, nil
	}
	wrong := k.missing(strings.Join(none, ", "))
	if len(none) > 1 {
		wrong = &Error{wrong.Status, wrong.Code, strings.NewReplacer(" ID '", " IDs '", "does not", "do not").Replace(wrong.Message)}
	}
	return nil, wrong
}

// page returns the requested page size, and the ID after which the page begins.
func (r *request) page(ids string, least, most int) (size, after int, err error) {
	size = most
	if r.form.has("MaxResults") {
		if size, err = r.form.number("MaxResults", most); err != nil {
			return 0, 0, err
		}
		if ids != "" && r.form.has(ids) {
			return 0, 0, bad("InvalidParameterCombination", "The parameter %s cannot be used with the parameter maxResults", ids)
		}
		if size < least || size > most {
			return 0, 0, bad("InvalidParameterValue", "Value ( %d ) for parameter maxResults is invalid. Expecting a value between %d and %d.", size, least, most)
		}
	}
	if r.set.Page > 0 && r.action != "DescribeAddresses" { // which has no pages
		size = min(size, r.set.Page)
	}
	if t := r.form.text("NextToken"); t != "" {
		text, _ := base64.RawURLEncoding.DecodeString(t)
		action, rest, _ := strings.Cut(string(text), " ")
		after, err = strconv.Atoi(rest)
		if err != nil || action != r.action {
			return 0, 0, bad("InvalidNextToken", "The token '%s' is not valid for this action", t)
		}
	}
	return size, after, nil
}

// token returns the token of the next page.
func (r *request) token(after int) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s %d", r.action, after))
}
