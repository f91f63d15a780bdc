package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/awsdeploy"
	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/flags"
)

// plan prints what apply would do.
func (j *networkJob) plan(ctx context.Context) error {
	d := awsdeploy.New(j.client, awsdeploy.Options{})
	v, err := d.Read(ctx, j.spec)
	if err != nil {
		return err
	}
	h, err := d.Headroom(ctx, v)
	if err != nil {
		return err
	}
	a := newNetworkAnswer(j.spec, v, h)
	if err := j.write(a, func() error { return a.write(j.out) }); err != nil {
		return err
	}
	switch {
	case len(v.Plan.Steps) > 0:
		return errPending
	case len(v.Plan.Problems)+len(v.Plan.Blocked) > 0:
		return errors.New("apply cannot solve these problems; see above")
	}
	return nil
}

// apply makes the account what the spec says.
func (j *networkJob) apply(ctx context.Context) error {
	w := newNetworkLog(j.log)
	d := awsdeploy.New(j.client, awsdeploy.Options{Report: w.report, Called: w.called, AnyQuota: j.network.noQuota})
	began := time.Now()
	r, err := d.Build(ctx, j.spec)
	return j.finish(r, err, began)
}

// destroy deletes the network, after a confirmation.
func (j *networkJob) destroy(ctx context.Context) error {
	w := newNetworkLog(j.log)
	o := awsdeploy.Options{Report: w.report, Called: w.called}
	if j.network.confirm != "" && j.network.confirm != j.spec.Cluster {
		return &flags.Error{Flag: "--confirm", Value: j.network.confirm, Why: "the spec's cluster is " + j.spec.Cluster, Fix: "nothing was deleted; name the cluster whose network is to be deleted"}
	}
	if j.network.confirm == "" {
		o.Approve = j.ask
	}
	began := time.Now()
	r, err := awsdeploy.New(j.client, o).Destroy(ctx, awsdeploy.EndOf(j.spec, j.network.leftovers))
	if _, refused := errors.AsType[*flags.Error](err); refused {
		return err // the answer is written already
	}
	return j.finish(r, err, began)
}

// ask shows what would be deleted, and asks for the cluster's name. Without a terminal it refuses.
func (j *networkJob) ask(ctx context.Context, v awsnet.View) error {
	a := newNetworkAnswer(j.spec, v, awsdeploy.Headroom{})
	if j.text() {
		if err := a.write(j.out); err != nil {
			return err
		}
	} else if err := j.write(a, nil); err != nil {
		return err
	}
	refused := &flags.Error{Flag: "--confirm", Why: "missing, and nothing was deleted", Fix: fmt.Sprintf("to delete these %d objects, add --confirm=%s", len(v.Plan.Steps), j.spec.Cluster)}
	if !j.text() || !isTerminal(j.in) || !isTerminal(j.log) || j.network.file == "-" {
		return refused
	}
	fmt.Fprintf(j.log, "\nDelete this network? Type the cluster's name, %s, to go on: ", j.spec.Cluster)
	typed := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(io.LimitReader(j.in, 256)).ReadString('\n')
		typed <- strings.TrimSpace(line)
	}()
	select {
	case name := <-typed:
		if name != j.spec.Cluster {
			return refused
		}
		return nil
	case <-ctx.Done():
		return errors.New("interrupted; nothing was deleted")
	}
}

// isTerminal reports whether a person reads and types there.
func isTerminal(at any) bool {
	f, is := at.(*os.File)
	if !is {
		return false
	}
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// finish writes how a run ended.
func (j *networkJob) finish(r awsdeploy.Result, err error, began time.Time) error {
	a := newNetworkAnswer(j.spec, r.View, awsdeploy.Headroom{})
	run := networkRun{Passes: r.Passes, Done: r.Done, Left: r.Left, Failed: []networkFailure{}, Seconds: time.Since(began).Seconds()}
	for _, f := range r.Failed {
		run.Failed = append(run.Failed, networkFailure{f.Step.Key.String(), string(f.Step.Verb), f.Err.Error()})
	}
	if err != nil {
		run.Error = err.Error()
	}
	for _, n := range j.client.Calls() {
		run.Calls += n
	}
	a.Run = &run
	return errors.Join(err, j.write(a, func() error {
		if err != nil {
			return nil // the error says what is left
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%s in %.0f s: %d steps, %d calls of the API\n", j.outcome(run.Done), run.Seconds, run.Done, run.Calls)
		a.Prices = nil
		a.writeRest(&b)
		_, err := io.WriteString(j.out, legible(b.String()))
		return err
	}))
}

// outcome returns how a run without an error ended.
func (j *networkJob) outcome(steps int) string {
	switch {
	case j.network.do == networkApply:
		return "the network is as the spec says"
	case steps > 0:
		return "the network is deleted"
	}
	return fmt.Sprintf("nothing to delete in %s of cluster %s with the UID %s", j.spec.Region, j.spec.Cluster, j.spec.UID)
}

// networkLog writes the progress of a run, one line a call. It is safe for concurrent use.
type networkLog struct {
	mu    sync.Mutex
	out   io.Writer
	began time.Time
	last  awsdeploy.Progress
	said  string // the last line about waiting
	at    time.Time
}

func newNetworkLog(out io.Writer) *networkLog { return &networkLog{out: out, began: time.Now()} }

// quiet is the shortest time between two lines about the same waiting.
const quiet = 15 * time.Second

func (w *networkLog) line(format string, args ...any) {
	s := time.Since(w.began).Round(time.Second)
	fmt.Fprintf(w.out, "%3d:%02d %s\n", int(s.Minutes()), int(s.Seconds())%60, legible(fmt.Sprintf(format, args...)))
}

// report writes what a run waits for.
func (w *networkLog) report(p awsdeploy.Progress) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.last
	w.last = p
	text := ""
	switch {
	case p.Doing == awsdeploy.Reading && before.Doing != awsdeploy.Reading:
		text = pick(p.Pass == 1, "reading the account", "reading the account again")
	case p.Doing == awsdeploy.Waiting:
		text = "trying again: " + oneLine(p.Why)
	case p.Doing == awsdeploy.Applying && p.Plan.Calls == 0 && len(p.Plan.Waiting) > 0:
		text = "waiting for " + strings.Join(p.Plan.Waiting, ", ")
	}
	if text == "" || text == w.said && time.Since(w.at) < quiet {
		return
	}
	w.said, w.at = text, time.Now()
	w.line("%s", text)
}

// called writes a call that ended.
func (w *networkLog) called(c awsdeploy.Called) {
	w.mu.Lock()
	defer w.mu.Unlock()
	what := ""
	if len(c.Steps) > 0 {
		what = c.Steps[0].Key.String()
	}
	if len(c.IDs) > 0 && c.IDs[0] != "" {
		what += " " + c.IDs[0]
	}
	if n := len(c.Steps) - 1; n > 0 {
		what += fmt.Sprintf(" and %d more", n)
	}
	text := fmt.Sprintf("[%d/%d] %s %s", w.last.Plan.Done, w.last.Plan.Steps, c.Call, what)
	if c.Err != nil {
		text += " FAILED: " + oneLine(c.Err.Error())
	}
	w.line("%s", text)
}
