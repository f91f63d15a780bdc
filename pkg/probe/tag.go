package probe

import (
	"crypto/hmac"
	"crypto/sha256"
)

// Tag marks requests to a node with what only the readers of its lease can know: a
// sign that they are not a flood from a container. The zero Tag is of a node that
// publishes no instance, as in Kubernetes.
type Tag [8]byte

// NewTag returns the tag of a node that publishes this instance.
func NewTag(instance string) (t Tag) {
	if instance != "" {
		copy(t[:], keyed(instance, "tulle probe tag", nil))
	}
	return t
}

// keyed returns a hash of text and b that only the holder of key can compute.
func keyed(key, text string, b []byte) []byte {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(text))
	mac.Write(b)
	return mac.Sum(nil)
}
