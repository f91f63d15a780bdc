package service

import (
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

// refuse makes the server refuse all writes of a Service, until code is 0.
func (l *lab) refuse(name string, code int32) {
	l.API.Do(func() {
		l.API.Refuse = func(r *http.Request) *metav1.Status {
			if code == 0 || r.Method != http.MethodPatch || !strings.HasPrefix(r.URL.Path, "/"+path(name)) {
				return nil
			}
			return apitest.Refusal(code, "refused by the test")
		}
	})
}

// passUntilRefused lets time pass until the server has refused one more write of a Service.
func (l *lab) passUntilRefused(name string) {
	l.Helper()
	tries := l.tries(name)
	for range 600 {
		l.Pass(time.Second)
		if l.tries(name) > tries {
			return
		}
	}
	l.Fatal("no write in ten minutes")
}

// tries returns how many writes of a Service were sent.
func (l *lab) tries(name string) int { return l.API.Asked("PATCH " + l.API.URL + "/" + path(name)) }

// TestAChangedServiceIsWrittenAtOnce: however long the server has refused the writes of a
// Service, a change of the Service ends the back-off.
func TestAChangedServiceIsWrittenAtOnce(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.refuse("web", http.StatusUnprocessableEntity)
		l.add("web")
		l.Pass(time.Hour)
		if n := l.tries("web"); n < 10 || n > 40 {
			t.Errorf("%d tries in an hour", n)
		}
		l.WantWarning("web", failedReason, "cannot add the finalizer", "refused by the test")
		l.passUntilRefused("web")
		l.refuse("web", 0)
		l.change("web", func(d map[string]any) {
			d["metadata"].(map[string]any)["labels"] = map[string]any{"team": "a"}
		})
		l.Pass(5 * time.Second)
		l.wantBalanced("web", 1, 2)
	})
}

// TestConflictsCauseNoBackOff: a write that requires another state of the Service is repeated
// each second, however often that has failed.
func TestConflictsCauseNoBackOff(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.refuse("web", http.StatusConflict)
		l.add("web")
		l.Pass(10 * time.Minute)
		if n := l.tries("web"); n > 610 {
			t.Errorf("%d tries in ten minutes", n)
		}
		l.passUntilRefused("web")
		l.refuse("web", 0)
		l.Pass(5 * time.Second)
		l.wantBalanced("web", 1, 2)
	})
}
