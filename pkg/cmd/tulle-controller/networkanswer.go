package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/tulle-net/tulle/pkg/awsdeploy"
	"github.com/tulle-net/tulle/pkg/awsnet"
)

// networkAnswer is a network, what is left to do, and how a run of the command aws ended.
type networkAnswer struct {
	Cluster  string           `json:"cluster"`
	UID      string           `json:"uid"`
	Region   string           `json:"region"`
	Tag      string           `json:"tag"`
	Endpoint string           `json:"endpoint,omitempty"`
	Steps    []networkStep    `json:"steps"`
	Calls    int              `json:"calls"`
	Prices   []networkPrice   `json:"prices"`
	Quotas   []networkQuota   `json:"quotas"`
	Notes    []string         `json:"notes"`
	Problems []networkProblem `json:"problems"`
	Blocked  []networkBlocker `json:"blocked"`
	Foreign  []networkForeign `json:"foreign"`
	Kept     []networkKept    `json:"kept"`
	Run      *networkRun      `json:"run,omitempty"`
}

type networkStep struct {
	Verb   string   `json:"verb"`
	Object string   `json:"object"`
	ID     string   `json:"id,omitempty"`
	Calls  []string `json:"calls"`
	Before string   `json:"before,omitempty"`
	After  string   `json:"after,omitempty"`
}

type networkPrice struct {
	What    string   `json:"what"`
	Count   int      `json:"count"`
	Monthly *float64 `json:"monthly,omitempty"`
}

type networkQuota struct {
	Name  string `json:"name"`
	Code  string `json:"code"`
	Where string `json:"where,omitempty"`
	Limit int    `json:"limit"`
	Used  int    `json:"used"`
	More  int    `json:"more"`
	Short bool   `json:"short"`
}

type networkProblem struct {
	Field string `json:"field"`
	Text  string `json:"text"`
}

type networkBlocker struct {
	Object string `json:"object"`
	ID     string `json:"id,omitempty"`
	By     string `json:"by"`
}

type networkForeign struct {
	ID       string `json:"id"`
	Text     string `json:"text"`
	Leftover bool   `json:"leftover"`
}

type networkKept struct {
	ID      string `json:"id"`
	Address string `json:"address"`
}

type networkRun struct {
	Passes  int              `json:"passes"`
	Done    int              `json:"done"`
	Left    int              `json:"left"`
	Failed  []networkFailure `json:"failed"`
	Error   string           `json:"error,omitempty"`
	Calls   int              `json:"calls"`
	Seconds float64          `json:"seconds"`
}

type networkFailure struct {
	Object string `json:"object"`
	Verb   string `json:"verb"`
	Error  string `json:"error"`
}

// newNetworkAnswer returns a network, and what is left to do.
func newNetworkAnswer(s awsnet.Spec, v awsnet.View, h awsdeploy.Headroom) networkAnswer {
	owner := awsnet.Owner{Cluster: s.Cluster, UID: s.UID}
	a := networkAnswer{
		Cluster: s.Cluster, UID: s.UID, Region: s.Region, Tag: owner.Tag() + "=owned", Calls: v.Plan.Calls(),
		Steps: []networkStep{}, Prices: []networkPrice{}, Quotas: []networkQuota{}, Notes: []string{},
		Problems: []networkProblem{}, Blocked: []networkBlocker{}, Foreign: []networkForeign{}, Kept: []networkKept{},
	}
	if host, port := v.Endpoint(); host != "" {
		a.Endpoint = fmt.Sprintf("%s:%d", host, port)
	}
	for _, x := range v.Plan.Steps {
		before, after := x.Difference()
		one := networkStep{string(x.Verb), x.Key.String(), x.Current, []string{}, before, after}
		for _, c := range x.Calls {
			one.Calls = append(one.Calls, c.String())
		}
		a.Steps = append(a.Steps, one)
	}
	costs, known := awsnet.Price(v.Want, s.Region)
	for _, c := range costs {
		one := networkPrice{What: c.What, Count: c.Count}
		if known && c.Monthly > 0 {
			one.Monthly = &c.Monthly
		}
		a.Prices = append(a.Prices, one)
	}
	for _, n := range h.Needs {
		a.Quotas = append(a.Quotas, networkQuota{n.Name, n.Code, n.Where, n.Limit, n.Used, n.More, n.Short()})
	}
	a.Notes = append(a.Notes, h.Assumed...)
	for _, p := range v.Plan.Problems {
		a.Problems = append(a.Problems, networkProblem{p.Field, p.Text})
	}
	for _, b := range v.Plan.Blocked {
		a.Blocked = append(a.Blocked, networkBlocker{b.Key.String(), b.ID, b.By})
	}
	left := awsnet.Leftovers(v.Holding)
	for _, f := range v.Plan.Kept() {
		is := slices.ContainsFunc(left, func(l awsnet.Found) bool { return l.ID == f.ID })
		a.Foreign = append(a.Foreign, networkForeign{f.ID, f.Text(), is})
	}
	for _, f := range v.Kept() {
		a.Kept = append(a.Kept, networkKept{f.ID, f.Given.Address.String()})
	}
	return a
}

// write writes the plan for people.
func (a networkAnswer) write(out io.Writer) error {
	var table, b strings.Builder
	t := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "cluster %s in %s; ours has the tags %s and %s=%s\n", a.Cluster, a.Region, a.Tag, awsnet.UIDTag, a.UID)
	if len(a.Steps) > 0 {
		fmt.Fprintln(t, "\nVERB\tOBJECT\tCALLS")
	}
	for _, s := range a.Steps {
		object := s.Object
		if s.ID != "" {
			object += " " + s.ID
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", s.Verb, object, cmp.Or(strings.Join(s.Calls, ", "), "–"))
		if s.Before != "" || s.After != "" {
			fmt.Fprintf(t, "\tbefore: %s; after: %s\t\n", cmp.Or(s.Before, "none"), cmp.Or(s.After, "none"))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	switch n := len(a.Steps); {
	case n > 0:
		fmt.Fprintf(&b, "\n%d steps to do, in %d calls\n", n, a.Calls)
	case len(a.Problems)+len(a.Blocked) == 0:
		b.WriteString("nothing to do\n")
	}
	a.writeRest(&b)
	_, err := io.WriteString(out, legible(table.String()+b.String()))
	return err
}

// legible replaces characters that a terminal may act on, such as those of an escape sequence in a
// tag. Lines stay.
func legible(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			return r
		case r == '\t':
			return ' '
		}
		return '?'
	}, text)
}

// writeRest writes what is not a step.
func (a networkAnswer) writeRest(b *strings.Builder) {
	for _, p := range a.Problems {
		fmt.Fprintf(b, "problem: %s: %s\n", p.Field, p.Text)
	}
	for _, x := range a.Blocked {
		fmt.Fprintf(b, "blocked: %s: %s\n", x.Object, x.By)
	}
	for _, f := range a.Foreign {
		if f.Leftover {
			fmt.Fprintf(b, "left by a cloud controller: %s\n", f.Text)
		} else {
			fmt.Fprintf(b, "not ours, and kept: %s\n", f.Text)
		}
	}
	for _, k := range a.Kept {
		fmt.Fprintf(b, "kept, and billed by AWS: address %s %s\n", k.ID, k.Address)
	}
	enough := 0
	for _, q := range a.Quotas {
		if !q.Short && q.Where != "" && 2*(q.Used+q.More) <= q.Limit {
			enough++ // limits of a zone or a group that are far away
			continue
		}
		where := ""
		if q.Where != "" {
			where = " in " + q.Where
		}
		fmt.Fprintf(b, "quota: %s%s: %d of %d used, %d more needed%s\n", q.Name, where, q.Used, q.Limit, q.More, pick(q.Short, "; NOT ENOUGH, raise "+q.Code, ""))
	}
	if enough > 0 {
		fmt.Fprintf(b, "quota: %d more of zones and groups are less than half used\n", enough)
	}
	for _, n := range a.Notes {
		fmt.Fprintf(b, "note: %s\n", n)
	}
	sum, unknown := 0.0, 0
	for _, p := range a.Prices {
		if p.Monthly == nil {
			unknown++
			fmt.Fprintf(b, "price: %d × %s\n", p.Count, p.What)
			continue
		}
		sum += *p.Monthly
		fmt.Fprintf(b, "price: %d × %s: %.2f USD a month\n", p.Count, p.What, *p.Monthly)
	}
	switch {
	case sum > 0:
		fmt.Fprintf(b, "price: %.2f USD a month%s, without traffic and taxes, at %s prices\n", sum, pick(unknown > 0, " and what has no price above", ""), awsnet.PricesOf)
	case unknown > 0:
		fmt.Fprintf(b, "price: the prices of %s are not known here; see AWS's price list\n", a.Region)
	}
	if a.Endpoint != "" {
		fmt.Fprintf(b, "endpoint: %s\n", a.Endpoint)
	}
}
