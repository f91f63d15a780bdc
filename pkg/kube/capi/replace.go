package capi

import "encoding/json"

// Replace returns what makes want of have, as the value of a field in a merge patch. Such a patch
// keeps the members of a JSON object that it does not name, so those that go are null in it.
func Replace(have json.RawMessage, want any) any {
	text, err := json.Marshal(want)
	if err != nil {
		return want
	}
	var from, to any
	if json.Unmarshal(have, &from) != nil || json.Unmarshal(text, &to) != nil {
		return want
	}
	return replace(from, to)
}

func replace(have, want any) any {
	from, was := have.(map[string]any)
	to, is := want.(map[string]any)
	if !was || !is {
		return want
	}
	patch := make(map[string]any)
	for key := range from {
		patch[key] = nil
	}
	for key, value := range to {
		patch[key] = replace(from[key], value)
	}
	return patch
}
