package kube

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
)

func TestHintNamesTheCause(t *testing.T) {
	for _, c := range []struct {
		err  error
		hint string
	}{
		{&Error{Code: http.StatusUnauthorized}, "the API server rejects our identity; the token or the certificate may have expired"},
		{&Error{Code: http.StatusForbidden}, "the API server does not allow it; bind the service account or the user to a role that does"},
		{fmt.Errorf("a list: %w", &Error{Code: http.StatusTooManyRequests}), "the API server is overloaded"},
		{&Error{Code: http.StatusInternalServerError, Message: "i/o timeout"}, "no answer in time"}, // that of its etcd
		{&Error{Code: http.StatusInternalServerError, Message: "disk full"}, ""},
		{&Error{Code: http.StatusInternalServerError, Message: "failed calling webhook: connect: connection refused"}, ""},
		{errors.New("tls: failed to verify certificate: x509: certificate signed by unknown authority"), "no authority in the kubeconfig or the service account has signed the API server's certificate"},
		{errors.New("x509: certificate is valid for localhost, not kubernetes"), "the API server's certificate is not valid"},
		{errors.New("dial tcp 10.96.0.1:443: connect: connection refused"), "nothing listens at the API server's address; on a new node, kube-proxy provides it"},
		{errSilent, ""}, // it is its own hint
		{io.ErrUnexpectedEOF, ""},
	} {
		if got := Hint(c.err); got != c.hint {
			t.Errorf("%v: hint %q, want %q", c.err, got, c.hint)
		}
	}
}
