package kube

import (
	"errors"
	"net/http"

	"github.com/tulle-net/tulle/pkg/kube"
)

// rights are what the node's role must allow.
const rights = "get, list and watch nodes, patch nodes/status"

// explain returns the kind of err, and err in words.
func explain(err error) (kind, words string) {
	text := err.Error()
	if _, ours := errors.AsType[reason](err); ours {
		return text, text
	}
	hint := kube.Hint(err)
	if hint == "" {
		return "", text
	}
	if kube.Code(err) == http.StatusForbidden {
		hint += ": " + rights
	}
	return hint, hint + " (" + text + ")"
}
