package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/tulle-net/tulle/pkg/answer"
	"github.com/tulle-net/tulle/pkg/flags"
	"github.com/tulle-net/tulle/pkg/kube"
)

// explainNode reads the argument of the command explain.
func (s *settings) explainNode(node string) error {
	if node == "" {
		return &flags.Error{Why: "explain needs the name of a Node or a Service", Fix: "name one, as in tulle-controller explain worker-1, or default/web"}
	}
	s.command, s.node = showNode, node
	return nil
}

// explainAnswer is what the controllers do for a Node or a Service.
type explainAnswer struct {
	Node  string        `json:"node"`
	Lines []explainLine `json:"lines"`
}

type explainLine struct {
	Controller string `json:"controller"`
	What       string `json:"what"`
	OK         bool   `json:"ok"`
	Text       string `json:"text"`
}

// explain prints what the controllers do for a Node or a Service, and what is missing.
func (s settings) explain(out io.Writer) error {
	return s.read(func(ctx context.Context, p *process) error {
		all, failed := p.engine.Explain(ctx, s.node)
		a := explainAnswer{Node: s.node, Lines: []explainLine{}}
		for _, x := range all {
			for _, l := range x.Lines {
				a.Lines = append(a.Lines, explainLine{x.Controller, l.What, l.OK, l.Text})
			}
		}
		if len(a.Lines) == 0 {
			fix := "check the name and --controllers"
			if strings.Contains(s.node, "/") && !s.runs(servicePart) {
				fix = "for Services, add --controllers=*,service"
			}
			return errors.Join(failed, fmt.Errorf("no controller knows a Node, or a Service NAMESPACE/NAME, called %.253q; %s", s.node, fix))
		}
		if namespace, name, is := strings.Cut(s.node, "/"); is && a.wrong() > 0 {
			a.Lines = append(a.Lines, p.eventsOf(ctx, namespace, name)...)
		}
		return errors.Join(failed, answer.Write(s.output, out, "explain", a, func() error { return a.write(out) }))
	})
}

// eventsOf returns the last event of each reason about a Service. They have what only the
// leader knows, such as a change that the cloud refuses.
func (p *process) eventsOf(ctx context.Context, namespace, name string) (lines []explainLine) {
	// ctx may have ended while the cluster was read.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), eventsLimit)
	defer cancel()
	last := make(map[string]kube.Event)
	_, err := kube.ListAll(ctx, p.client, kube.Events(namespace), kube.EventFormat, func(e *kube.Event) {
		if o := e.InvolvedObject; o.Kind == "Service" && o.Name == name && e.LastTimestamp >= last[e.Reason].LastTimestamp {
			last[e.Reason] = *e
		}
	})
	if err != nil {
		return []explainLine{{"events", "events", false, "could not be read: " + err.Error()}}
	}
	all := slices.SortedFunc(maps.Values(last), func(a, b kube.Event) int {
		return cmp.Or(cmp.Compare(b.LastTimestamp, a.LastTimestamp), cmp.Compare(a.Reason, b.Reason))
	})
	for _, e := range all[:min(len(all), mostEvents)] {
		text := fmt.Sprintf("%.1000s (%s", oneLine(e.Message), e.LastTimestamp)
		if e.Count > 1 {
			text += fmt.Sprintf(", %d times", e.Count)
		}
		lines = append(lines, explainLine{"events", oneLine(e.Reason), e.Type != kube.Warning, text + ")"})
	}
	return lines
}

// oneLine returns a text of others for a line of a table.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.Join(strings.Fields(text), " "))
}

const (
	// mostEvents is how many events an explanation has.
	mostEvents = 5
	// eventsLimit is how long events are read.
	eventsLimit = 5 * time.Second
)

// wrong returns how many lines are not done.
func (a explainAnswer) wrong() (n int) {
	for _, l := range a.Lines {
		if !l.OK {
			n++
		}
	}
	return n
}

func (a explainAnswer) write(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	last, wrong := "", a.wrong()
	for _, l := range a.Lines {
		if l.Controller != last {
			fmt.Fprintf(t, "%s\n", l.Controller)
			last = l.Controller
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\n", pick(l.OK, "ok", "NOT"), l.What, l.Text)
	}
	fmt.Fprintf(t, "\n%s: %s\n", a.Node, pick(wrong == 0, "nothing is missing", fmt.Sprintf("%d of %d not done", wrong, len(a.Lines))))
	return t.Flush()
}
