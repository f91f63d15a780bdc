package azure

import (
	"net/http"
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud"
)

func TestKindsOfErrors(t *testing.T) {
	for _, test := range []struct {
		code   string
		status int
		want   cloud.Kind
	}{
		{"TooManyRequests", http.StatusTooManyRequests, cloud.Throttled},
		{"Odd", http.StatusTooManyRequests, cloud.Throttled},
		{"RetryableErrorDueToAnotherOperation", http.StatusTooManyRequests, cloud.Changed}, // slows nothing down
		{"AnotherOperationInProgress", http.StatusConflict, cloud.Changed},
		{"Odd", http.StatusConflict, cloud.Changed},
		{"Odd", http.StatusPreconditionFailed, cloud.Changed},
		{"AuthorizationFailed", http.StatusForbidden, cloud.Denied},
		{"Odd", http.StatusUnauthorized, cloud.Denied},
		{"ResourceNotFound", http.StatusNotFound, cloud.Missing},
		{"Odd", http.StatusNotFound, cloud.Unavailable},
		{"RouteLimitExceeded", http.StatusBadRequest, cloud.Full},
		{"Odd", http.StatusBadRequest, cloud.Refused},
		{"Odd", http.StatusBadGateway, cloud.Unavailable},
	} {
		if got := kindOf(failure{Code: test.code}, test.status); got != test.want {
			t.Errorf("%s with the status %d is %s, want %s", test.code, test.status, got, test.want)
		}
	}
}
