package backend

// Secret is a text that no formatting shows, also as a part of another value: fmt calls
// no method of an unexported field, so the text is behind a pointer.
type Secret struct{ text *string }

// SecretOf returns the secret with a text; "" is none.
func SecretOf(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// Reveal returns the text.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// String returns "(set)", or "" if there is none.
func (s Secret) String() string {
	if s.text == nil {
		return ""
	}
	return "(set)"
}
