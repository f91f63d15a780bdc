package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/tulle-net/tulle/pkg/answer"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/controller/nodeipam"
	"github.com/tulle-net/tulle/pkg/controller/route"
	"github.com/tulle-net/tulle/pkg/controller/service"
	"github.com/tulle-net/tulle/pkg/flags"
)

// read reads the cluster without writing, and calls then. It reads as long as answers come.
func (s settings) read(then func(context.Context, *process) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.mode = controller.ObserveMode
	p, err := s.connect()
	if err != nil {
		return err
	}
	defer p.close()
	loop, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.engine.Run(loop)
	}()
	p.engine.Follow()
	watching, rest := context.WithCancel(ctx)
	rested := make(chan struct{})
	go func() {
		defer close(rested)
		readPace.watch(watching, p.progress, cancel)
	}()
	err = because(ctx, then(ctx, p))
	rest()
	<-rested
	end()
	<-ended
	return err
}

// planAnswer is what the controllers would write now.
type planAnswer struct {
	Writes []plannedWrite `json:"writes"`
	Tables []tableAnswer  `json:"tables"`
	Quotas []quotaAnswer  `json:"quotas"`
	Prices []priceAnswer  `json:"prices"`
}

type plannedWrite struct {
	Controller string `json:"controller"`
	Verb       string `json:"verb"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Change     string `json:"change"`
	Before     string `json:"before,omitempty"`
	After      string `json:"after,omitempty"`
	Mark       string `json:"mark,omitempty"`
	Held       bool   `json:"held,omitempty"`
}

// newPlanAnswer returns an answer without writes.
func newPlanAnswer() planAnswer {
	return planAnswer{Writes: []plannedWrite{}, Tables: []tableAnswer{}, Quotas: []quotaAnswer{}, Prices: []priceAnswer{}}
}

// plan prints every write that the controllers would make now.
func (s settings) plan(out io.Writer) error {
	return s.read(func(ctx context.Context, p *process) error {
		writes, err := p.engine.PlanAll(ctx)
		if err != nil {
			return err
		}
		a := newPlanAnswer()
		if p.routes != nil {
			var r route.Report
			if !p.engine.Do(ctx, func() { r = p.routes.Report() }) {
				return ctx.Err()
			}
			a.Tables = newTableAnswers(r)
		}
		if p.services != nil {
			var r service.Report
			if !p.engine.Do(ctx, func() { r = p.services.Report() }) {
				return ctx.Err()
			}
			a.Quotas, a.Prices = newQuotaAnswers(r), newPriceAnswers(r.Planned, p.region)
		}
		for _, w := range writes {
			a.Writes = append(a.Writes, plannedWrite{w.Controller, w.Verb, w.Object.Kind, nameIn(w.Object), w.Summary, w.Before, w.After, w.Mark, w.Held})
		}
		err = answer.Write(s.output, out, "plan", a, func() error { return a.write(out) })
		if err == nil && a.pending() > 0 {
			err = errPending
		}
		return err
	})
}

// pending counts the writes that are not held back.
func (a planAnswer) pending() (n int) {
	for _, w := range a.Writes {
		if !w.Held {
			n++
		}
	}
	return n
}

// nameIn returns the name of an object, that of a Service with its namespace.
func nameIn(r controller.Ref) string {
	if r.Kind == "Service" {
		return r.Namespace + "/" + r.Name
	}
	return r.Name
}

func (a planAnswer) write(out io.Writer) error {
	if len(a.Writes) == 0 {
		_, err := fmt.Fprintln(out, "nothing to write")
		return err
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "VERB\tOBJECT\tCHANGE")
	for _, w := range a.Writes {
		fmt.Fprintf(t, "%s\t%s %s\t%s\n", w.Verb, w.Kind, w.Name, w.Change)
		if w.Before != "" || w.After != "" {
			fmt.Fprintf(t, "\t\t%s\n", w.difference())
		}
	}
	fmt.Fprintf(t, "\n%d to write", a.pending())
	if held := len(a.Writes) - a.pending(); held > 0 {
		fmt.Fprintf(t, "; %d held back until a person decides", held)
	}
	fmt.Fprintln(t)
	for _, u := range a.Tables {
		fmt.Fprintln(t, u)
	}
	for _, q := range a.Quotas {
		fmt.Fprintln(t, q)
	}
	for _, p := range a.Prices {
		fmt.Fprintln(t, p)
	}
	return t.Flush()
}

// difference returns what a write changes, and what makes it ours.
func (w plannedWrite) difference() string {
	text := "before: " + cmp.Or(w.Before, "none") + "; after: " + cmp.Or(w.After, "none")
	if w.Mark != "" {
		text += pick(w.Kind == "Route", "; ledger: ", "; ours by ") + w.Mark
	}
	return text
}

// ipamAnswer is how full the pools are, and what is wrong with Nodes.
type ipamAnswer struct {
	Nodes    int           `json:"nodes"`
	Waiting  int           `json:"waiting"`
	Pools    []poolAnswer  `json:"pools"`
	Problems []poolProblem `json:"problems"`
	Findings []findingLine `json:"findings"`
}

// poolProblem is something wrong with the pools of a source.
type poolProblem struct {
	Source string `json:"source"`
	Object string `json:"object,omitempty"`
	Text   string `json:"text"`
}

type poolAnswer struct {
	Pool          string     `json:"pool"`
	Family        string     `json:"family"`
	Bits          int        `json:"bits"`
	Total         uint64     `json:"total"`
	Used          uint64     `json:"used"`
	Free          uint64     `json:"free"`
	Resting       uint64     `json:"resting"`
	Reserved      uint64     `json:"reserved"`
	Draining      uint64     `json:"draining"`
	Largest       int        `json:"largest"`
	Fragmentation float64    `json:"fragmentation"`
	NodesPerDay   float64    `json:"nodesPerDay"`
	Full          *time.Time `json:"full,omitempty"`
}

type findingLine struct {
	Node string `json:"node"`
	Code string `json:"code"`
	Text string `json:"text"`
}

func newIPAMAnswer(r nodeipam.Report) ipamAnswer {
	a := ipamAnswer{Nodes: r.Nodes, Waiting: r.Waiting, Pools: []poolAnswer{}, Problems: []poolProblem{}, Findings: []findingLine{}}
	for _, u := range r.Pools {
		p := poolAnswer{
			Pool: u.Pool, Family: u.Family.String(), Bits: u.Bits, Total: u.Total, Used: u.Used, Free: u.Free,
			Resting: u.Resting, Reserved: u.Reserved, Draining: u.Draining, Largest: u.Largest,
			Fragmentation: u.Fragmentation, NodesPerDay: u.Forecast.PerDay,
		}
		if full := u.Forecast.Full; !full.IsZero() {
			p.Full = &full
		}
		a.Pools = append(a.Pools, p)
	}
	for _, p := range r.Problems {
		a.Problems = append(a.Problems, poolProblem{p.Source, objectName(p.Object), p.Text})
	}
	for _, f := range r.Findings {
		a.Findings = append(a.Findings, findingLine{f.Node, string(f.Code), f.Text})
	}
	return a
}

// objectName returns an object's name for people, or "" for none.
func objectName(r controller.Ref) string {
	if r == (controller.Ref{}) {
		return ""
	}
	return r.String()
}

// ipam shows how full the pools are.
func (s settings) ipam(out io.Writer) error {
	if !s.runs(nodeIPAMPart) {
		return &flags.Error{Flag: "ipam", Why: "needs node IPAM, which is off", Fix: "add --allocate-node-cidrs and the range, as in --cluster-cidr=10.244.0.0/16"}
	}
	return s.read(func(ctx context.Context, p *process) error {
		if err := p.engine.Await(ctx); err != nil {
			return err
		}
		var r nodeipam.Report
		if !p.engine.Do(ctx, func() { r = p.ipam.Report(time.Now()) }) {
			return ctx.Err()
		}
		a := newIPAMAnswer(r)
		return answer.Write(s.output, out, "ipam", a, func() error { return a.write(out) })
	})
}

func (a ipamAnswer) write(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "POOL\tFAMILY\tBLOCKS\tTOTAL\tUSED\tFREE\tRESTING\tRESERVED\tDRAINING\tLARGEST FREE\tFRAGMENTED\tFULL")
	for _, p := range a.Pools {
		largest, full := "–", "not in sight"
		if p.Largest >= 0 {
			largest = fmt.Sprintf("/%d", p.Largest)
		}
		switch {
		case p.Free+p.Resting == 0:
			full = "now"
		case p.Full != nil:
			full = p.Full.UTC().Format(time.DateOnly)
		}
		fmt.Fprintf(t, "%s\t%s\t/%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", p.Pool, p.Family, p.Bits, p.Total, p.Used, p.Free, p.Resting, p.Reserved, p.Draining, largest, percent(p.Fragmentation), full)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%d Nodes, %d without podCIDRs\n", a.Nodes, a.Waiting)
	for _, p := range a.Problems {
		fmt.Fprintf(&b, "%s: %s\n", cmp.Or(p.Object, p.Source), p.Text)
	}
	for _, f := range a.Findings {
		fmt.Fprintf(&b, "%s: %s\n", f.Node, f.Text)
	}
	_, err := io.WriteString(out, b.String())
	return err
}
