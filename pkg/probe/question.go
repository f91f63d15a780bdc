package probe

// key is the key of a question, known to the readers of the asked host's lease.
type key struct {
	text string
	tag  Tag // finds the key; the kernel drops questions without one
}

func newKeys(texts []string) []key {
	all := make([]key, len(texts))
	for i, text := range texts {
		all[i].text = text
		copy(all[i].tag[:], keyed(text, "tulle question tag", nil))
	}
	return all
}

// The parts of a question behind its challenge.
const (
	tagAt   = runAt
	knowsAt = proofAt
)

// newQuestion returns a question by a key.
func newQuestion(challenge []byte, k key) []byte {
	b := make([]byte, presenceLen)
	copy(b, magic)
	b[kindAt] = question
	copy(b[challengeAt:], challenge)
	copy(b[tagAt:], k.tag[:])
	copy(b[knowsAt:], k.knows(b))
	return b
}

// knows returns the proof, for a question, that its asker knows the key.
func (k key) knows(question []byte) []byte {
	return keyed(k.text, "tulle question", question[challengeAt:runAt])[:proofLen]
}
