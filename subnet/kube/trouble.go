package kube

import (
	"errors"
	"net/http"
	"strings"

	"github.com/tulle-net/tulle/pkg/kube"
)

// reasons explain common errors: a sign in the error's text, and a hint.
var reasons = []struct{ sign, hint string }{
	{"certificate signed by unknown authority", "no authority in the kubeconfig or the service account has signed the API server's certificate"},
	{"certificate has expired", "a certificate has expired or is not valid yet, or the clock is wrong"},
	{"x509:", "the API server's certificate is not valid"},
	{"connection refused", "nothing listens at the API server's address; on a new node, kube-proxy provides it"},
	{"no such host", "the API server's name cannot be resolved"},
	{"no route to host", "there is no route to the API server"},
	{"context deadline exceeded", "no answer in time"},
	{"TLS handshake timeout", "no answer in time"},
	{"client connection lost", "no answer in time"},
	{"i/o timeout", "no answer in time"},
}

var answers = map[int]string{
	http.StatusUnauthorized:    "the API server rejects our identity; the token or the certificate may have expired",
	http.StatusForbidden:       "the API server does not allow it; bind the service account or the user to a role that may get, list and watch nodes and patch nodes/status",
	http.StatusTooManyRequests: "the API server is overloaded",
}

// explain returns the kind of err, and err in words.
func explain(err error) (kind, words string) {
	text := err.Error()
	var known reason
	if errors.As(err, &known) {
		return text, text
	}
	if hint := answers[kube.Code(err)]; hint != "" {
		return hint, hint + " (" + text + ")"
	}
	for _, known := range reasons {
		if strings.Contains(text, known.sign) {
			return known.hint, known.hint + " (" + text + ")"
		}
	}
	return "", text
}
