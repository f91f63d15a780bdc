//go:build aws

package awstest_test

import (
	"net/http"
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud/aws/mototest"
)

// TestMotoIsAsMarked makes the calls of the conformance table against moto_server. Where
// a row is marked, moto must be wrong in the way that the mark says.
func TestMotoIsAsMarked(t *testing.T) {
	url := mototest.Start(t)
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			// Reset moto: no scenario depends on another one.
			if answer, err := http.Post(url+"/moto-api/reset", "", nil); err != nil || answer.StatusCode != http.StatusOK {
				t.Fatalf("reset: %v %v", answer, err)
			}
			s.run(t, func(r row) string {
				if r.moto != "" {
					return r.moto
				}
				return r.want
			})
		})
	}
}
