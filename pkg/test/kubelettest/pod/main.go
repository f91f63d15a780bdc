// Command pod runs in the tests' pods. It waits, serves its host's name at an
// address, or sends a request.
//
//	pod wait
//	pod serve :8080
//	pod get http://192.0.2.1:8080/
package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		args = append(args, "", "")
	}
	switch args[0] {
	case "wait":
		// The kernel ignores signals to a pod's first process that it does not handle.
		end := make(chan os.Signal, 1)
		signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
		<-end
		return nil
	case "serve":
		return serve(args[1])
	case "get":
		return get(args[1])
	}
	return errors.New("usage: pod wait, pod serve ADDRESS, or pod get URL")
}

func serve(address string) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	// Each request uses a connection of its own, because a service chooses a pod for
	// each connection.
	server := http.Server{Addr: address, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		_, _ = io.WriteString(w, name) // the client may have gone
	})}
	return server.ListenAndServe()
}

func get(url string) error {
	client := http.Client{Timeout: 2 * time.Second}
	r, err := client.Get(url)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if _, err := io.Copy(os.Stdout, r.Body); err != nil {
		return err
	}
	if r.StatusCode != http.StatusOK {
		return errors.New(r.Status)
	}
	return nil
}
