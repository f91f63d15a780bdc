// Command tulle-etcd runs an etcd of one member, for a network whose first host
// keeps the store. tulled starts it, and it outlives tulled.
package main

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
	"github.com/tulle-net/tulle/pkg/etcdprocess"
	"github.com/tulle-net/tulle/pkg/etcdserver"
	"github.com/tulle-net/tulle/pkg/flags"
	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/pkg/systemd"
)

// version is set by the linker.
var version = "devel"

func main() {
	syscall.Umask(0o077) // only root may read what it creates
	err := run(os.Args[1:], os.Environ(), os.Stdout)
	if err == nil {
		return
	}
	if !errors.Is(err, errLogged) {
		fmt.Fprintln(os.Stderr, "tulle-etcd:", err)
	}
	os.Exit(1)
}

// errLogged ends a process that has logged why.
var errLogged = errors.New("logged")

// run does what the command line and the environment say.
func run(args, environ []string, out io.Writer) error {
	var c commandLine
	p := c.program()
	given, err := p.Read(args, environ)
	switch {
	case err != nil:
		return err
	case given.Wants(flags.Help.Name):
		return p.WriteHelp(out)
	case given.Wants(flags.Version.Name):
		return printVersion(out)
	}
	if err := given.Apply(); err != nil {
		return err
	}
	switch c.command {
	case stopIt:
		return stop(c.settings, out)
	case showVersion:
		return printVersion(out)
	case showManPage:
		return p.WriteManual(out)
	case showCompletion:
		return p.WriteCompletion(out, c.shell)
	}
	return serve(c.settings)
}

func printVersion(out io.Writer) error {
	_, err := fmt.Fprintln(out, version)
	return err
}

// stop ends the process that runs on the folder.
func stop(s etcdprocess.Settings, out io.Writer) error {
	const limit = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	p, err := companion.Stop(ctx, s.Dir)
	switch {
	case errors.Is(err, companion.ErrNone):
		_, err = fmt.Fprintf(out, "no tulle-etcd runs on %s\n", s.Dir)
	case err == nil:
		_, err = fmt.Fprintf(out, "stopped tulle-etcd, process %d\n", p.PID)
	}
	return err
}

// serve runs the etcd until a signal or a client ends it.
func serve(s etcdprocess.Settings) error {
	if err := setUpLog(s.Verbosity); err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	signal.Ignore(syscall.SIGHUP)
	control, err := companion.Claim(s.Spec(""), version)
	if err != nil {
		return err
	}
	defer control.Close()
	klog.InfoS("Starting tulle-etcd", "version", version, "settings", s.Arguments())
	for _, warning := range exposed(s) {
		klog.InfoS("Secret is open to other users", "warning", warning)
	}
	p := process{control, systemd.New(condition{control, s.Listen}), retry.NewWakeup()}
	notifying, done := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { p.service.Run(notifying, p.changed) })
	defer running.Wait()
	defer done()

	if err = p.serve(ctx, s); err == nil {
		return nil
	}
	klog.ErrorS(err, "Failed to run etcd")
	control.Set(companion.Failed, err.Error())
	// The tulled that started it polls for it many times a second.
	const limit = 2 * time.Second
	ctx, cancel = context.WithTimeout(ctx, limit)
	defer cancel()
	control.AwaitHeard(ctx)
	return errLogged
}

// exposed returns warnings about the key and the data if every user of this host may
// read or write them.
func exposed(s etcdprocess.Settings) (warnings []string) {
	for _, w := range []string{flags.Exposed("--keyfile", s.KeyFile), flags.Exposed("--data-dir", s.Dir)} {
		if w != "" {
			warnings = append(warnings, w)
		}
	}
	return warnings
}

// process reports its state to its clients and to systemd.
type process struct {
	control *companion.Control
	service *systemd.Service
	changed retry.Wakeup
}

// serve runs the etcd until ctx ends or a client asks for its end.
func (p process) serve(ctx context.Context, s etcdprocess.Settings) error {
	slow := time.AfterFunc(10*time.Second, func() {
		klog.InfoS("Waiting for etcd to start; another process may use its folder, or its disk is slow", "folder", s.Dir)
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
	server, err := etcdserver.Start(ctx, s)
	slow.Stop()
	switch {
	case err == nil:
	case ctx.Err() != nil:
		p.stopping()
		return nil
	default:
		return err
	}
	klog.InfoS("Started etcd", "endpoint", server.Endpoint())
	p.control.Set(companion.Running, "")
	p.changed.Wake()
	select {
	case <-ctx.Done():
		p.stopping()
	case <-server.Done():
		err = errors.New("etcd ended unexpectedly")
	}
	if late := server.Stop(); late != nil {
		klog.ErrorS(late, "Exiting before etcd has stopped; no acknowledged write is lost")
	}
	return err
}

// stopping notifies systemd before the clients, because they may ask systemd for the next start.
func (p process) stopping() {
	klog.InfoS("Stopping etcd")
	p.service.Stop()
	p.control.Set(companion.Stopping, "")
}

// condition reports the process to systemd.
type condition struct {
	*companion.Control
	listen string
}

// Condition implements systemd.Daemon.
func (c condition) Condition(context.Context) (ready bool, text string) {
	p := c.Process()
	return p.State == companion.Running, string(p.State) + ", " + c.listen
}

// Alive implements systemd.Daemon.
func (c condition) Alive(context.Context) bool { return true }

// setUpLog sends the log to standard error.
func setUpLog(verbosity int) error {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(flags)
	return errors.Join(flags.Set("logtostderr", "true"), flags.Set("v", strconv.Itoa(verbosity)))
}
