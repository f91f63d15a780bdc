package kube

import (
	"net/http"
	"strings"
)

// answerHints explain answers of an API server by their HTTP status.
var answerHints = map[int]string{
	http.StatusUnauthorized:    "the API server rejects our identity; the token or the certificate may have expired",
	http.StatusForbidden:       "the API server does not allow it; bind the service account or the user to a role that does",
	http.StatusTooManyRequests: "the API server is overloaded",
}

// signHints explain failures to reach an API server by a part of their text, the
// special before the general.
var signHints = []struct{ sign, hint string }{
	{"certificate signed by unknown authority", "no authority in the kubeconfig or the service account has signed the API server's certificate"},
	{"certificate has expired", "a certificate has expired or is not valid yet, or the clock is wrong"},
	{"x509:", "the API server's certificate is not valid"},
	{"connection refused", "nothing listens at the API server's address; on a new node, kube-proxy provides it"},
	{"no such host", "the API server's name cannot be resolved"},
	{"no route to host", "there is no route to the API server"},
	{"context deadline exceeded", errSilent.Error()},
	{"TLS handshake timeout", errSilent.Error()},
	{"client connection lost", errSilent.Error()},
	{"i/o timeout", errSilent.Error()},
}

// Hint returns the likely cause of a failed request, and what to do. It returns "" if
// err's own text is all that is known.
func Hint(err error) string {
	if hint := answerHints[Code(err)]; hint != "" {
		return hint
	}
	for _, s := range signHints {
		// The text of an answer may be about another server, such as a webhook.
		if Code(err) != 0 && s.hint != errSilent.Error() {
			continue
		}
		if strings.Contains(err.Error(), s.sign) {
			return s.hint
		}
	}
	return ""
}
