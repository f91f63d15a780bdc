package httpd

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestToolReadsProfiles runs Go's own tools on all profiles.
func TestToolReadsProfiles(t *testing.T) {
	mux := http.NewServeMux()
	profiles(mux)
	list := ask(mux, "/debug/pprof/")
	if list.Code != http.StatusOK || !strings.Contains(list.Body.String(), "goroutine\t") {
		t.Fatalf("the list is %d %s", list.Code, list.Body)
	}
	for line := range strings.Lines(list.Body.String()) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
		name = strings.Replace(name, "seconds=30", "seconds=0.2", 1)
		answer := ask(mux, "/debug/pprof/"+name)
		if answer.Code != http.StatusOK || answer.Header().Get("Content-Type") != "application/octet-stream" {
			t.Errorf("%s: %d %s", name, answer.Code, answer.Header())
			continue
		}
		path := filepath.Join(t.TempDir(), "profile")
		if err := os.WriteFile(path, answer.Body.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		tool := []string{"tool", "pprof", "-raw", path}
		if strings.HasPrefix(name, "trace") {
			tool = []string{"tool", "trace", "-d=parsed", path}
		}
		if out, err := exec.Command("go", tool...).CombinedOutput(); err != nil || len(out) == 0 {
			t.Errorf("%s: go %s: %v: %.300s", name, strings.Join(tool, " "), err, out)
		}
	}
}

func TestProfilesAsText(t *testing.T) {
	mux := http.NewServeMux()
	profiles(mux)
	for path, want := range map[string]struct {
		code int
		text string
	}{
		"/debug/pprof/goroutine?debug=2":    {http.StatusOK, "httpd.TestProfilesAsText"},
		"/debug/pprof/heap?debug=1&gc=1":    {http.StatusOK, "heap profile"},
		"/debug/pprof/heap?seconds=5":       {http.StatusBadRequest, "-diff_base"},
		"/debug/pprof/none":                 {http.StatusNotFound, "unknown profile"},
		"/debug/pprof/symbol":               {http.StatusOK, "num_symbols: 1\n"},
		"/debug/pprof/symbol?0x1+x+y+0xffe": {http.StatusOK, "num_symbols: 1\n"},
		"/debug/pprof/cmdline":              {http.StatusForbidden, "secrets"},
	} {
		answer := ask(mux, path)
		if answer.Code != want.code || !strings.Contains(answer.Body.String(), want.text) || !strings.HasPrefix(answer.Header().Get("Content-Type"), "text/plain") {
			t.Errorf("%s: %d %s %.300s", path, answer.Code, answer.Header(), answer.Body)
		}
	}
}

// TestRecordingsEndWithTheirClient: the next client must not wait for them.
func TestRecordingsEndWithTheirClient(t *testing.T) {
	mux := http.NewServeMux()
	profiles(mux)
	for _, path := range []string{"/debug/pprof/profile?seconds=1e9", "/debug/pprof/trace?seconds=Inf", "/debug/pprof/trace?seconds=NaN"} {
		ctx, leave := context.WithCancel(t.Context())
		leave()
		mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
		if answer := ask(mux, strings.Split(path, "?")[0]+"?seconds=0.001"); answer.Code != http.StatusOK {
			t.Errorf("after %s: %d %s", path, answer.Code, answer.Body)
		}
	}
}
