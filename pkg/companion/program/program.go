// Package program is the process of a program that a daemon starts as its companion: its
// command line, its control socket, and its reports to systemd.
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/companion"
	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/pkg/systemd"
)

// Work is what a program does while it runs.
type Work interface {
	// Done is closed when the work ends, by Stop or by itself.
	Done() <-chan struct{}
	Stop() error
}

// Job is one run of a program.
type Job struct {
	Spec      companion.Spec
	Version   string
	What      string // it runs, like etcd
	Serves    string // whom, or where
	Verbosity int
	Warnings  []string // about its settings
	// Start starts the work. It ends with an error when ctx does.
	Start func(ctx context.Context) (Work, error)
}

// errLogged ends a process that has logged why.
var errLogged = errors.New("logged")

// Exit ends a process after an error that nothing else has shown.
func Exit(name string, err error) {
	if err == nil {
		return
	}
	if !errors.Is(err, errLogged) {
		fmt.Fprintf(os.Stderr, "%s: %s\n", name, err)
	}
	os.Exit(1)
}

// Run does the work until a signal or a client ends it.
func (j Job) Run() error {
	if err := setUpLog(j.Verbosity); err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	signal.Ignore(syscall.SIGHUP)
	control, err := companion.Claim(j.Spec, j.Version)
	if err != nil {
		return err
	}
	defer control.Close()
	klog.InfoS("Starting "+j.Spec.Program, "version", j.Version, "settings", j.Spec.Arguments)
	for _, warning := range j.Warnings {
		klog.InfoS("Secret is open to other users", "warning", warning)
	}
	p := process{control, systemd.New(condition{control, j.Serves}), retry.NewWakeup()}
	notifying, done := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { p.service.Run(notifying, p.changed) })
	defer running.Wait()
	defer done()
	if err = p.serve(ctx, j); err == nil {
		return nil
	}
	klog.ErrorS(err, "Failed to run "+j.What)
	control.Set(companion.Failed, err.Error())
	// The daemon that started it polls for it many times a second.
	const limit = 2 * time.Second
	ctx, cancel = context.WithTimeout(ctx, limit)
	defer cancel()
	control.AwaitHeard(ctx)
	return errLogged
}

// process reports its state to its clients and to systemd.
type process struct {
	control *companion.Control
	service *systemd.Service
	changed retry.Wakeup
}

// serve does the work until ctx ends or a client asks for its end.
func (p process) serve(ctx context.Context, j Job) error {
	slow := time.AfterFunc(10*time.Second, func() {
		klog.InfoS("Waiting for "+j.What+" to start; another process may use its folder, or its disk is slow", "folder", j.Spec.Dir)
	})
	defer slow.Stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-p.control.Asked():
			cancel()
		case <-ctx.Done():
		}
	}()
	work, err := j.Start(ctx)
	slow.Stop()
	switch {
	case err == nil:
	case ctx.Err() != nil:
		p.stopping(j)
		return nil
	default:
		return err
	}
	klog.InfoS("Started "+j.What, "serves", j.Serves)
	p.control.Set(companion.Running, "")
	p.changed.Wake()
	select {
	case <-ctx.Done():
		p.stopping(j)
	case <-work.Done():
		err = errors.New(j.What + " ended unexpectedly")
	}
	if late := work.Stop(); late != nil {
		klog.ErrorS(late, "Exiting before the work has stopped")
	}
	return err
}

// stopping notifies systemd before the clients, because they may ask systemd for the next start.
func (p process) stopping(j Job) {
	klog.InfoS("Stopping " + j.What)
	p.service.Stop()
	p.control.Set(companion.Stopping, "")
}

// condition reports the process to systemd.
type condition struct {
	*companion.Control
	serves string
}

// Condition implements systemd.Daemon.
func (c condition) Condition(context.Context) (ready bool, text string) {
	p := c.Process()
	return p.State == companion.Running, string(p.State) + ", " + c.serves
}

// Alive implements systemd.Daemon.
func (c condition) Alive(context.Context) bool { return true }

// setUpLog sends the log to standard error.
func setUpLog(verbosity int) error {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(flags)
	return errors.Join(flags.Set("logtostderr", "true"), flags.Set("v", strconv.Itoa(verbosity)))
}

// stop ends the process that runs on a folder.
func stop(s companion.Spec, out io.Writer) error {
	const limit = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	p, err := companion.Stop(ctx, s.Dir)
	switch {
	case errors.Is(err, companion.ErrNone):
		_, err = fmt.Fprintf(out, "no %s runs on %s\n", s.Program, s.Dir)
	case err == nil:
		_, err = fmt.Fprintf(out, "stopped %s, process %d\n", s.Program, p.PID)
	}
	return err
}
