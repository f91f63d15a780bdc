package httpd

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"strings"
	"time"
)

const (
	// mostTraces limits the profiles that run at once.
	mostTraces = 1
	// longestTrace is the time limit of a profile: it takes as long as the client asks for.
	longestTrace = 5 * time.Minute
)

// profiles adds profiles of the process to mux, at the paths of net/http/pprof. That
// package is not linked: it adds a parser of profiles, and serves the command line, which
// may contain secrets.
func profiles(mux *http.ServeMux) {
	long := func(h http.HandlerFunc) http.Handler {
		return AtOnce(mostTraces, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(longestTrace + writeLimit))
			h(w, r)
		}))
	}
	mux.Handle("GET /debug/pprof/{$}", long(Text(listProfiles)))
	mux.Handle("GET /debug/pprof/{name}", long(serveProfile))
	mux.Handle("GET /debug/pprof/profile", long(recording(30*time.Second, pprof.StartCPUProfile, pprof.StopCPUProfile)))
	mux.Handle("GET /debug/pprof/trace", long(recording(time.Second, trace.Start, trace.Stop)))
	mux.HandleFunc("GET /debug/pprof/symbol", Text(serveSymbols))
	mux.HandleFunc("GET /debug/pprof/cmdline", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the command line is hidden: it may contain secrets", http.StatusForbidden)
	})
}

// listProfiles lists the profiles, with how much each has.
func listProfiles(w http.ResponseWriter, _ *http.Request) {
	for _, p := range pprof.Profiles() {
		fmt.Fprintf(w, "%s\t%d\n", p.Name(), p.Count())
	}
	fmt.Fprint(w, "profile?seconds=30\ntrace?seconds=1\n")
}

// serveProfile serves the profile with the name in the path: for go tool pprof, or with
// debug as a text.
func serveProfile(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	p := pprof.Lookup(name)
	switch {
	case p == nil:
		http.Error(w, "unknown profile; /debug/pprof/ lists all", http.StatusNotFound)
		return
	case r.FormValue("seconds") != "":
		http.Error(w, "this profile is of one moment; for a difference, get two and run go tool pprof -diff_base", http.StatusBadRequest)
		return
	}
	if name == "heap" && numberOf(r, "gc") > 0 {
		runtime.GC()
	}
	debug := numberOf(r, "debug")
	if debug != 0 {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	} else {
		setFile(w, name)
	}
	_ = p.WriteTo(w, debug) // the client may be gone
}

// recording serves what is recorded between start and stop, for the seconds that the client
// asks for.
func recording(usual time.Duration, start func(io.Writer) error, stop func()) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		lasts := usual
		if seconds, err := strconv.ParseFloat(r.FormValue("seconds"), 64); err == nil && seconds > 0 {
			lasts = time.Duration(min(seconds, longestTrace.Seconds()) * float64(time.Second))
		}
		setFile(w, "profile")
		if err := start(w); err != nil {
			w.Header().Del("Content-Disposition")
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer stop()
		ctx, cancel := context.WithTimeout(r.Context(), lasts)
		defer cancel()
		<-ctx.Done()
	}
}

// setFile makes an answer a file.
func setFile(w http.ResponseWriter, name string) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
}

func numberOf(r *http.Request, key string) int {
	n, err := strconv.Atoi(r.FormValue(key))
	if err != nil {
		return 0
	}
	return n
}

// serveSymbols serves the functions of the program counters in the query, as in 0x1+0x2.
func serveSymbols(w http.ResponseWriter, r *http.Request) {
	fmt.Fprint(w, "num_symbols: 1\n") // it only matters that it is not 0
	for word := range strings.SplitSeq(r.URL.RawQuery, "+") {
		if pc, err := strconv.ParseUint(word, 0, 64); err == nil {
			if f := runtime.FuncForPC(uintptr(pc)); f != nil {
				fmt.Fprintf(w, "%#x %s\n", pc, f.Name())
			}
		}
	}
}
