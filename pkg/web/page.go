package web

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/status"
)

//go:embed style.css
var style markup

// policy lets a browser load nothing from outside the page.
func policy() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

const (
	pageLimit = 5 * time.Second // time limit of each of the daemon's answers
	// mostRows limits the rows of a list on the page.
	mostRows = 30
	fewRows  = 8  // kept free for each lesser trouble
	mostWell = 12 // limit of rows up to which peers without trouble are added, unless there are few peers
	mostList = 20
	mostName = 100
	// fewRejected is how many rejected leases get a line each.
	fewRejected = 3
)

// statusz serves the page for people.
func (s *site) statusz(w http.ResponseWriter, r *http.Request) {
	var d document
	s.view(r.Context()).write(&d)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", s.policy)
	w.Header().Set("Content-Length", strconv.Itoa(d.Len()))
	_, _ = w.Write(d.Bytes()) // a client that is gone needs no answer
}

// view is the content of the page.
type view struct {
	Class, Verdict string
	Title          string
	At             string
	Version        string
	Started        moments
	ID             string
	Reasons        []reason
	MoreReasons    int
	Checks         []check

	Facts []section

	Known   bool // the peers are known
	Counts  [conditions]tally
	Picture picture
	Rows    []peerRow
	Left    string
	Slowest bool // the slowest come first among peers without trouble
	Trouble bool // some peer has a problem
}

// tally is the number of peers in a condition.
type tally struct {
	Condition condition
	N         int
}

type reason struct{ Class, What, Text string }

// moments is a time as an age, and the exact time.
type moments struct{ Ago, Exact string }

type section struct {
	Name  string
	Class string
	Lines []fact
}

// fact has either a text or a time.
type fact struct {
	Name string
	Text string
	Time *moments
	Code bool
}

func (s *site) view(ctx context.Context) view {
	r := read(ctx, s.Source, pageLimit)
	// If the loop did not answer once, do not ask again.
	var peers []status.Peer
	known := r.Stuck == ""
	if known {
		within, cancel := context.WithTimeout(ctx, pageLimit)
		defer cancel()
		var err error
		peers, err = s.Peers(within)
		known = err == nil
	}
	return r.view(peers, known)
}

func (r reading) view(peers []status.Peer, known bool) view {
	v := view{
		At: r.at.UTC().Format("2006-01-02 15:04:05 UTC"), Version: line(r.Version, longest), Started: r.moment(r.Started),
		Title: line(either(r.Name, r.NodeID), mostName), ID: line(r.NodeID, mostName), Known: known, Checks: r.checks(),
	}
	v.Reasons = r.reasons()
	v.Class, v.Verdict = "good", "Ready"
	switch {
	case r.Stuck != "":
		v.Class, v.Verdict = "bad", "The daemon's main loop does not answer"
	case !r.Ready:
		v.Class, v.Verdict = "bad", "Not ready"
	case len(v.Reasons) > 0:
		v.Class, v.Verdict = "warn", "Ready, with problems"
	}
	if n := len(v.Reasons); n > mostList {
		v.Reasons, v.MoreReasons = v.Reasons[:mostList], n-mostList
	}
	v.Facts = r.facts()
	for i := range v.Counts {
		v.Counts[i].Condition = condition(i)
	}
	for _, p := range peers {
		v.Counts[conditionOf(p)].N++
	}
	if known {
		v.Picture = draw(peers, v.Class, line(v.Title, 14))
		v.Rows, v.Left = r.rows(peers)
		v.Slowest = v.Left != "" && r.Probes != nil
		v.Trouble = v.Counts[wellPeer].N < len(peers)
	}
	return v
}

// icon returns the page's icon as a URL. It contains no text from elsewhere.
func icon(class string) string {
	colour := map[string]string{"good": "2da44e", "warn": "d29922", "bad": "cf222e"}[class]
	return "data:image/svg+xml,%3Csvg%20xmlns=%27http://www.w3.org/2000/svg%27%20viewBox=%270%200%208%208%27%3E%3Ccircle%20cx=%274%27%20cy=%274%27%20r=%274%27%20fill=%27%23" + colour + "%27/%3E%3C/svg%3E"
}

// reasons returns everything that is wrong, the worst first.
func (r reading) reasons() (all []reason) {
	add := func(class, what, text string) {
		all = append(all, reason{class, what, line(text, longest)})
	}
	for _, c := range r.Checks {
		for _, why := range (status.Checks{c}).Missing() {
			add("bad", c.Name, why)
		}
	}
	if r.Remembered != nil {
		add("warn", "store", "unreachable; using the network as saved at "+r.Remembered.UTC().Format(time.RFC3339))
	}
	for _, f := range r.Store.Failing {
		add("warn", "store", f.What+": "+f.Why)
	}
	if c := r.Clone; c != nil {
		add("warn", "clone", c.String())
	}
	if n := r.Peers.Unroutable; n > 0 {
		add("warn", "peers", count(n, "peer")+" unroutable in at least one family")
	}
	for _, text := range r.probeTroubles() {
		add("warn", "probes", text)
	}
	if n, first := r.refused(); n > 0 {
		add("warn", "kernel", "refuses "+count(n, "object")+", first "+first.What+" of "+first.Owner+" since "+ago(r.at, first.Since)+": "+first.Why)
	}
	for i, f := range r.Fights {
		if i == fewRejected && len(r.Fights) > i+1 {
			add("warn", "fights", count(len(r.Fights)-i, "more thing")+" that another program keeps changing")
			break
		}
		add("warn", "fight", f.What+", since "+ago(r.at, f.Since)+": "+f.Why())
	}
	if r.holds("kernel") { // otherwise the check lists them
		for _, p := range r.Kernel.Problems {
			add("warn", "kernel", p)
		}
	}
	shown := r.Rejected
	if r.RejectedCount > fewRejected+1 {
		shown = shown[:min(len(shown), fewRejected)]
	}
	for _, p := range shown {
		add("warn", "lease", line(p.Key, 60)+" rejected: "+p.Why)
	}
	if more := r.RejectedCount - len(shown); more > 0 {
		add("warn", "leases", count(more, "more lease")+" rejected")
	}
	return all
}

// refused returns the number of objects that the kernel refuses, without those of the
// node itself, and the first of them.
func (r reading) refused() (n int, first status.Failing) {
	for _, f := range r.Kernel.Failing {
		if f.Owner != "host" {
			if n == 0 {
				first = f
			}
			n++
		}
	}
	return n, first
}

// since returns how long a reason has held, to follow the reason.
func (r reading) since(t *time.Time) string {
	if t == nil {
		return ""
	}
	return "since " + ago(r.at, *t)
}

func (r reading) moment(t time.Time) moments {
	return moments{ago(r.at, t), t.UTC().Format(time.RFC3339)}
}

// facts returns the facts about the node, in any state.
func (r reading) facts() []section {
	text := func(name, text string) fact { return fact{Name: name, Text: line(text, longest)} }
	code := func(name, text string) fact { return fact{Name: name, Text: line(text, longest), Code: true} }
	at := func(name string, t time.Time) fact { m := r.moment(t); return fact{Name: name, Time: &m} }

	node := section{Name: "This node"}
	if l := r.Lease; l != nil {
		node.Lines = append(node.Lines, code("subnet", join(l.Subnets)), code("public IP", join(l.Addresses)))
		if l.Reservation {
			node.Lines = append(node.Lines, text("lease", "reservation"))
		}
		if l.Since != nil {
			node.Lines = append(node.Lines, at("held since", *l.Since))
		}
		if l.Renewed != nil {
			node.Lines = append(node.Lines, at("renewed", *l.Renewed))
		}
	} else {
		node.Lines = append(node.Lines, text("subnet", pick(r.Stuck != "", "unknown", "none")))
	}
	for _, i := range r.Interfaces {
		words := i.Name + " " + i.Address.String()
		if i.Public != i.Address {
			words += ", published as " + i.Public.String()
		}
		node.Lines = append(node.Lines, code(i.Family, words), text("", "MTU "+strconv.Itoa(i.MTU)+", chosen by "+i.Why))
	}

	network := section{Name: "Network"}
	if r.Network.Backend != "" {
		network.Lines = append(network.Lines, code("networks", join(r.Network.Networks)), text("backend", r.Network.Backend))
		if r.Network.MTU > 0 {
			network.Lines = append(network.Lines, text("MTU", strconv.Itoa(r.Network.MTU)))
		}
	}
	if len(r.Network.Devices) > 0 {
		network.Lines = append(network.Lines, code("tunnels", strings.Join(r.Network.Devices, " ")))
	}
	network.Lines = append(network.Lines, text("peers", grouped(r.Peers.All)))
	if n := r.Reserved; n > 0 {
		network.Lines = append(network.Lines, text("reserved", count(n, "lease")))
	}
	if n := r.RejectedCount; n > 0 {
		network.Class = "warn"
		network.Lines = append(network.Lines, text("rejected", count(n, "lease")))
	}

	store := section{Name: "Store", Lines: []fact{text("kind", r.Store.Kind)}}
	for _, e := range r.Store.Endpoints[:min(mostList, len(r.Store.Endpoints))] {
		store.Lines = append(store.Lines, code("", e))
	}
	if r.Store.Revision != 0 {
		store.Lines = append(store.Lines, text("revision", strconv.FormatInt(r.Store.Revision, 10)))
	}
	if t := r.Store.Watching; t != nil {
		store.Lines = append(store.Lines, at("watching since", *t))
	}
	if t := r.Store.LastAt; t != nil && r.Store.Last != nil && len(r.Store.Failing) == 0 {
		store.Lines = append(store.Lines, at("last failure", *t), text("", r.Store.Last.What+": "+r.Store.Last.Why))
	}
	if len(r.Store.Failing) > 0 || r.Remembered != nil {
		store.Class = "warn"
	}

	return []section{node, network, store, r.probeFacts(), r.kernelFacts(), r.firewallFacts()}
}

func (r reading) kernelFacts() section {
	k := r.Kernel
	s := section{Name: "Kernel"}
	since := r.moment(k.Since)
	s.Lines = append(s.Lines,
		fact{Name: pick(k.InSync, "in sync since", "NOT in sync since"), Time: &since},
		fact{Name: "objects", Text: grouped(k.Objects)})
	if k.Pending > 0 {
		s.Lines = append(s.Lines, fact{Name: "pending", Text: grouped(k.Pending)})
	}
	if n := len(k.Failing); n > 0 {
		s.Lines = append(s.Lines, fact{Name: "failing", Text: grouped(n)})
	}
	if !k.InSync || len(k.Failing)+len(k.Problems) > 0 {
		s.Class = "warn"
	}
	last := r.moment(k.LastResync)
	s.Lines = append(s.Lines, fact{Name: "last full resync", Time: &last},
		fact{Name: "duration", Text: strconv.FormatFloat(k.ResyncMillis, 'f', 1, 64) + " ms"})
	healed := ""
	for _, kind := range slices.Sorted(maps.Keys(k.Healed)) {
		if n := k.Healed[kind]; n > 0 {
			healed += pick(healed == "", "", ", ") + kind + " " + strconv.FormatUint(n, 10)
		}
	}
	s.Lines = append(s.Lines, fact{Name: "drift restored", Text: either(line(healed, longest), "never")})
	return s
}

func (r reading) firewallFacts() section {
	s := section{Name: "Firewall and files"}
	text := "in sync"
	switch f := r.Firewall; {
	case f.Problem != "":
		s.Class, text = "bad", "NOT in sync"
	case !f.Written:
		s.Class, text = "bad", "not written yet"
	}
	s.Lines = append(s.Lines, fact{Name: "rules", Text: text})
	for _, text := range r.Firewall.Others {
		s.Class = either(s.Class, "warn")
		s.Lines = append(s.Lines, fact{Name: "foreign", Text: line(text, longest)})
	}
	if n := r.Firewall.Healed; n > 0 {
		s.Lines = append(s.Lines, fact{Name: "drift restored", Text: strconv.FormatUint(n, 10) + " times"})
	}
	if n := len(r.Files); n > 0 {
		s.Class = "bad"
		s.Lines = append(s.Lines, fact{Name: "files", Text: count(n, "file") + " NOT up to date"})
	} else {
		s.Lines = append(s.Lines, fact{Name: "files", Text: "up to date"})
	}
	return s
}
