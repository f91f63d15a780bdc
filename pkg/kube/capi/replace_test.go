package capi

import (
	"encoding/json"
	"testing"
)

// TestReplaceLeavesNothing applies what Replace returns as a server does.
func TestReplaceLeavesNothing(t *testing.T) {
	texts := []string{`{}`, `{"a":{"x":1,"y":{"z":true}}}`, `{"a":{"y":{"w":false}},"b":{}}`, `[{"name":"a"}]`, `"text"`, `7`}
	for _, have := range append(texts, "", "null") {
		for _, text := range texts {
			var was, want any
			_ = json.Unmarshal([]byte(have), &was)
			if err := json.Unmarshal([]byte(text), &want); err != nil {
				t.Fatal(err)
			}
			patch, err := json.Marshal(Replace(json.RawMessage(have), want))
			if err != nil {
				t.Fatal(err)
			}
			var change any
			if err := json.Unmarshal(patch, &change); err != nil {
				t.Fatal(err)
			}
			if got, err := json.Marshal(merged(was, change)); err != nil || string(got) != text {
				t.Errorf("%s and the patch %s give %s, not %s", have, patch, got, text)
			}
		}
	}
}

// merged applies a merge patch, as RFC 7396 says.
func merged(to, patch any) any {
	p, is := patch.(map[string]any)
	if !is {
		return patch
	}
	m, was := to.(map[string]any)
	if !was {
		m = make(map[string]any)
	}
	for key, value := range p {
		if value == nil {
			delete(m, key)
		} else {
			m[key] = merged(m[key], value)
		}
	}
	return m
}
