package controller

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/tulle-net/tulle/pkg/kube"
)

// hints explain common answers of an API server.
var hints = map[int]string{
	http.StatusUnauthorized:    "the API server rejects our identity; the token or the certificate may have expired",
	http.StatusForbidden:       "the API server does not allow it; bind the service account or the user to tulle-controller's ClusterRole",
	http.StatusTooManyRequests: "the API server is overloaded",
}

// signs explain common failures to reach an API server, by a part of their text.
var signs = []struct{ sign, hint string }{
	{"certificate signed by unknown authority", "no authority in the kubeconfig or the service account has signed the API server's certificate"},
	{"certificate has expired", "a certificate has expired or is not valid yet, or the clock is wrong"},
	{"x509:", "the API server's certificate is not valid"},
	{"connection refused", "nothing listens at the API server's address"},
	{"no such host", "the API server's name cannot be resolved"},
	{"no route to host", "there is no route to the API server"},
	{"context deadline exceeded", "the API server did not answer in time"},
	{"TLS handshake timeout", "the API server did not answer in time"},
	{"i/o timeout", "the API server did not answer in time"},
}

// explain returns err with a hint.
func explain(err error) error {
	if err == nil {
		return nil
	}
	hint := hints[kube.Code(err)]
	for _, s := range signs {
		if hint == "" && strings.Contains(err.Error(), s.sign) {
			hint = s.hint
		}
	}
	if hint == "" {
		return err
	}
	return fmt.Errorf("%s (%w)", hint, err)
}
