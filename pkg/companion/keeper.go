package companion

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/retry"
)

// Keeper keeps one program running with the given settings. It uses a running
// one, starts one otherwise, and restarts it after a crash. It stops it only to
// change its settings: the process outlives the keeper.
type Keeper struct {
	spec     Spec
	version  string // of this daemon
	launcher launcher
	changed  func()

	mu      sync.Mutex
	process *Process // nil while none answers
	problem string   // why none runs; "" while one runs, or before the first outcome
	ran     bool     // one has run
	settled chan struct{}
	once    sync.Once
}

// Status is what a Keeper knows of the process.
type Status struct {
	Process *Process // nil while none answers
	Problem string   // why none runs
}

// NewKeeper returns a keeper that calls changed whenever its status changes.
func NewKeeper(s Spec, version string, changed func()) *Keeper {
	return &Keeper{spec: s, version: version, launcher: newLauncher(), changed: changed, settled: make(chan struct{})}
}

// backoff is the wait after failures in a row.
var backoff = retry.Backoff{First: 500 * time.Millisecond, Last: 30 * time.Second}

const (
	// healthy is how long a process must run for its end to be a first failure.
	healthy = time.Minute
	// answers is how soon a process must answer after its start.
	answers = 10 * time.Second
	// pollInterval is how often the keeper polls for a process that it may not start.
	pollInterval = 2 * time.Second
)

// Run keeps the process until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	failures, mayStart, mayRestart := 0, true, true
	for ctx.Err() == nil {
		client, p, err := k.reach(ctx, mayStart)
		began := time.Now()
		if err == nil {
			restart := mayRestart && p.Settings != k.spec.Settings
			mayRestart = mayRestart && !restart
			mayStart, err = k.follow(ctx, client, p, restart)
			client.Close()
		}
		switch {
		case ctx.Err() != nil:
			return
		case !mayStart:
			retry.Sleep(ctx, pollInterval)
			continue
		case err == nil: // it ended for us to start it with other settings
			continue
		}
		if time.Since(began) > healthy {
			failures = 0
		}
		failures++
		k.failed(err)
		backoff.Sleep(ctx, failures)
	}
}

// reach connects to the process, and starts it first if mayStart.
func (k *Keeper) reach(ctx context.Context, mayStart bool) (*Client, Process, error) {
	client, p, err := Dial(ctx, k.spec.Dir)
	if !errors.Is(err, ErrNone) || !mayStart {
		return client, p, err
	}
	if err := k.launcher.start(ctx, k.spec); err != nil {
		return nil, p, err
	}
	ctx, cancel := context.WithTimeout(ctx, answers)
	defer cancel()
	for {
		const often = 20 * time.Millisecond
		retry.Sleep(ctx, often)
		if ctx.Err() != nil {
			return nil, p, fmt.Errorf("%s has not answered in %s within %s of its start; see %s", k.spec.Program, k.spec.Dir, answers, k.launcher.log(k.spec))
		}
		if client, p, err = Dial(ctx, k.spec.Dir); !errors.Is(err, ErrNone) {
			return client, p, err
		}
	}
}

// errCrashed means that a process ended without having announced it.
var errCrashed = errors.New("ended unexpectedly")

// follow follows the states of the process until it ends. With restart it asks the
// process to stop. It reports whether the keeper may start the next one: not after
// an operator stopped this one.
func (k *Keeper) follow(ctx context.Context, client *Client, p Process, restart bool) (mayStart bool, err error) {
	defer context.AfterFunc(ctx, client.Close)()
	defer func() {
		if ctx.Err() == nil {
			k.gone()
		}
	}()
	switch {
	case restart:
		klog.InfoS("Restarting program with changed settings", "program", k.spec.Program, "pid", p.PID)
		if err := client.AskToStop(); err != nil {
			return true, fmt.Errorf("ask %s to stop: %w", k.spec.Program, err)
		}
	case p.Settings != k.spec.Settings:
		klog.ErrorS(nil, "Found program with other settings; stop it to change them", "program", k.spec.Program, "running", p.Settings, "wanted", k.spec.Settings)
	}
	ending := p.State == Stopping && !k.ran // before this daemon began to keep it
	for {
		if !restart {
			k.heard(p)
		}
		last := p
		if p, err = client.Next(); err == nil {
			continue
		}
		switch {
		case !errors.Is(err, io.EOF):
			return true, fmt.Errorf("follow %s: %w", k.spec.Program, err)
		case restart, ending:
			return true, nil
		case last.State == Failed:
			return true, errors.New(last.Problem)
		case last.State == Stopping:
			k.stopped()
			return false, nil
		}
		return true, fmt.Errorf("%s %w; see %s", k.spec.Program, errCrashed, k.launcher.log(k.spec))
	}
}

// heard records and logs a state of the process.
func (k *Keeper) heard(p Process) {
	k.mu.Lock()
	before := k.problem
	k.process = &p
	if p.State == Running {
		k.problem, k.ran = "", true
	}
	k.mu.Unlock()
	if p.State == Running {
		what := "Connected to program"
		if before != "" {
			what = "Reconnected to program"
		}
		klog.InfoS(what, "program", k.spec.Program, "folder", k.spec.Dir, "pid", p.PID, "version", p.Version, "log", k.launcher.log(k.spec), "stop", k.StopCommand())
		if p.Version != k.version {
			klog.InfoS("Found program of another version; restart it when a pause of a second is acceptable", "program", k.spec.Program, "version", p.Version, "wanted", k.version)
		}
		k.settle()
	}
	k.changed()
}

// gone records that the process has ended.
func (k *Keeper) gone() {
	k.mu.Lock()
	k.process = nil
	k.mu.Unlock()
	k.changed()
}

// failed records why none runs, and logs each reason once until one runs.
func (k *Keeper) failed(err error) {
	k.mu.Lock()
	news := k.problem != err.Error()
	k.problem = err.Error()
	k.mu.Unlock()
	if news {
		klog.ErrorS(err, "Failed to keep program running; retrying", "program", k.spec.Program)
	}
	k.settle()
	k.changed()
}

// stopped records that an operator stopped the process.
func (k *Keeper) stopped() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.problem = "it was stopped"
	klog.InfoS("Noticed that a program was stopped; start it, or restart this daemon", "program", k.spec.Program)
}

// settle ends the wait for the first outcome.
func (k *Keeper) settle() { k.once.Do(func() { close(k.settled) }) }

// Settled is closed when the process runs for the first time, or has failed to start.
func (k *Keeper) Settled() <-chan struct{} { return k.settled }

// StopCommand returns the command that stops the process.
func (k *Keeper) StopCommand() string { return k.launcher.stop(k.spec) }

// Status returns the last known status of the process.
func (k *Keeper) Status() Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := Status{Problem: k.problem}
	if k.process != nil {
		p := *k.process
		s.Process = &p
	}
	return s
}
