package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/controller/awscluster"
	"github.com/tulle-net/tulle/pkg/controller/cloudnode"
	core "github.com/tulle-net/tulle/pkg/controller/cluster"
	"github.com/tulle-net/tulle/pkg/controller/lifecycle"
	"github.com/tulle-net/tulle/pkg/controller/nodeipam"
	"github.com/tulle-net/tulle/pkg/controller/route"
	"github.com/tulle-net/tulle/pkg/controller/service"
	"github.com/tulle-net/tulle/pkg/election"
	"github.com/tulle-net/tulle/pkg/httpd"
	"github.com/tulle-net/tulle/pkg/page"
)

// reading is the state of the program at one time.
type reading struct {
	at       time.Time
	version  string
	name     string // of the replica's host
	started  time.Time
	stuck    bool // the loop does not answer: state and ipam lack what only it knows
	state    controller.State
	hasIPAM  bool // node IPAM runs
	ipam     nodeipam.Report
	nodes    *cloudnode.Report  // nil without that controller
	routes   *route.Report      // nil without that controller
	life     *lifecycle.Report  // nil without that controller
	services *service.Report    // nil without that controller
	networks *awscluster.Report // nil without that controller
	clusters *core.Report       // nil without that controller
	// waits and fine are parts of the verdict: what controllers wait for, and what is done.
	waits, fine []string
	calls       map[cloud.Call]int
	elects      bool
	leader      election.Status
}

// read returns the present state of the program.
func (p *process) read(ctx context.Context) reading { return p.readWith(ctx, true) }

// glance returns the present state of the program without what costs more in a larger
// cluster: of node IPAM, only its progress.
func (p *process) glance(ctx context.Context) reading { return p.readWith(ctx, false) }

// readWith returns the present state of the program, with full reports of the controllers,
// or only with their progress.
func (p *process) readWith(ctx context.Context, all bool) reading {
	ctx, cancel := context.WithTimeout(ctx, httpd.AnswerLimit)
	defer cancel()
	r := reading{at: time.Now(), version: version, name: p.name, started: p.started, elects: p.elector != nil}
	if p.elector != nil {
		r.leader = p.elector.Status()
	}
	if p.google != nil {
		r.calls = p.google.Calls()
	}
	if p.cloud != nil {
		r.calls = p.cloud.Calls()
	}
	if p.accounts != nil {
		all := p.accounts.Calls()
		addCalls(all, r.calls)
		r.calls = all
	}
	known := r // if the loop does not answer in time, it may still set this later
	answered := p.engine.Do(ctx, func() {
		for _, report := range p.reports {
			report(&known, all)
		}
	})
	if answered {
		r = known
	}
	state, ok := p.engine.State(ctx)
	r.state, r.stuck = state, !answered || !ok
	return r
}

// say adds to the verdict how many objects wait, or that none does.
func (r *reading) say(n int, one, many, none string) {
	switch n {
	case 0:
		if none != "" {
			r.fine = append(r.fine, none)
		}
	case 1:
		r.waits = append(r.waits, "1 "+one)
	default:
		r.waits = append(r.waits, fmt.Sprintf("%d %s", n, many))
	}
}

// nodesInAll returns how many Nodes the cluster has, as far as a controller follows them.
func (r reading) nodesInAll() int {
	if !r.hasIPAM && r.nodes != nil {
		return r.nodes.Nodes
	}
	return r.ipam.Nodes
}

// checks returns all checks, in the order in which a starting program passes them.
func (r reading) checks() []page.Check {
	all := []page.Check{{Name: "loop", OK: !r.stuck, Text: pick(r.stuck, fmt.Sprintf("the main loop did not answer within %s", httpd.AnswerLimit), "the main loop answers")}}
	for _, f := range r.state.Feeds {
		c := page.Check{Name: f.What, OK: f.Listed, Text: "not listed yet"}
		switch {
		case f.Problem != "" && f.Listed:
			c.Text = "listed, but not followed now: " + f.Problem
		case f.Problem != "":
			c.Text = f.Problem
		case f.Listed && f.Revision == 0:
			c.Text = "looked up"
		case f.Listed:
			c.Text = fmt.Sprintf("followed up to resourceVersion %d", f.Revision)
		}
		all = append(all, c)
	}
	return all
}

// ready reports whether this replica can lead.
func (r reading) ready() bool {
	for _, c := range r.checks() {
		if !c.OK {
			return false
		}
	}
	return true
}

// verdict returns what the program does, in one line.
func (r reading) verdict() string {
	s := r.state
	switch {
	case r.stuck:
		return "the main loop does not answer"
	case !r.ready():
		return "starting: reading the cluster"
	case s.Mode == controller.ObserveMode:
		n := 0
		for _, writes := range s.Planned {
			n += len(writes)
		}
		return fmt.Sprintf("observing: %d writes would be made", n)
	case !s.Leading && r.leader.Leader != "":
		return "standing by for " + r.leader.Leader
	case !s.Leading:
		return "standing by; no replica leads"
	case !s.Planning:
		return "leading: reading the cluster"
	case r.ipam.Fences > 0:
		return fmt.Sprintf("leading: fencing off the last leader's writes from %d Nodes", r.ipam.Fences)
	case !s.Paused.IsZero():
		return "leading; writes pause because the API server fails"
	case len(r.waits) > 0:
		return "leading; " + strings.Join(r.waits, ", ")
	}
	return "leading; " + strings.Join(r.fine, ", ")
}

func pick(yes bool, a, b string) string {
	if yes {
		return a
	}
	return b
}

// condition reports the program to systemd.
type condition struct{ *process }

// Condition implements systemd.Daemon.
func (c condition) Condition(ctx context.Context) (ready bool, text string) {
	r := c.glance(ctx)
	return r.ready(), r.verdict()
}

// Alive implements systemd.Daemon.
func (c condition) Alive(ctx context.Context) bool { return c.engine.Do(ctx, func() {}) }

// leaderElection returns why the leader election does not work, or "".
func (r reading) leaderElection() string {
	// A leader that cannot renew stops leading. Only a stuck elector still leads.
	if r.elects && r.leader.Leading && !r.leader.Renewed.IsZero() && r.at.Sub(r.leader.Renewed) > stuckElector {
		return "the Lease was not renewed for " + r.at.Sub(r.leader.Renewed).Round(time.Second).String()
	}
	return ""
}

// stuckElector is how long a leader may fail to renew before its elector counts as stuck.
const stuckElector = 2 * time.Minute
