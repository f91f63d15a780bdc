package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/tulle-net/tulle/pkg/answer"
	"github.com/tulle-net/tulle/pkg/flags"
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

// explain prints what the controllers do for a Node, and what is missing.
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
			return errors.Join(failed, fmt.Errorf("no controller knows a Node, or a Service NAMESPACE/NAME, called %.253q; check the name and --controllers", s.node))
		}
		return errors.Join(failed, answer.Write(s.output, out, "explain", a, func() error { return a.write(out) }))
	})
}

func (a explainAnswer) write(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	last, wrong := "", 0
	for _, l := range a.Lines {
		if l.Controller != last {
			fmt.Fprintf(t, "%s\n", l.Controller)
			last = l.Controller
		}
		if !l.OK {
			wrong++
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\n", pick(l.OK, "ok", "NOT"), l.What, l.Text)
	}
	fmt.Fprintf(t, "\n%s: %s\n", a.Node, pick(wrong == 0, "nothing is missing", fmt.Sprintf("%d of %d not done", wrong, len(a.Lines))))
	return t.Flush()
}
