package status

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// writer writes lines for people.
type writer struct {
	*tabwriter.Writer
	program string // whose commands show more
	now     time.Time
}

func newWriter(w io.Writer, program string, now time.Time) writer {
	return writer{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0), program, now}
}

// see names the command that shows more.
func (w writer) see(command string) string { return "see " + w.program + " " + command }

// line writes a heading and its words; it writes nothing without words.
func (w writer) line(name string, words ...string) {
	words = slices.DeleteFunc(words, func(s string) bool { return s == "" })
	if len(words) > 0 {
		fmt.Fprintf(w, "%s:\t%s\n", name, strings.Join(words, ", "))
	}
}

// ago returns how long ago t was, for people.
func (w writer) ago(t time.Time) string {
	d := w.now.Sub(t)
	switch {
	case t.IsZero():
		return "never"
	case d < time.Second:
		return "just now"
	}
	return span(d) + " ago"
}

// lasting returns for how long something has lasted that began at t.
func (w writer) lasting(t time.Time) string {
	switch d := w.now.Sub(t); {
	case t.IsZero():
		return "from the start"
	case d < time.Second:
		return "for less than 1s"
	default:
		return "for " + span(d)
	}
}

// span returns a length of time for people, in the largest unit that fits it twice.
func span(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func join[T fmt.Stringer](all []T) string {
	var words []string
	for _, v := range all {
		words = append(words, v.String())
	}
	return strings.Join(words, ", ")
}

// WriteReport writes r, the state of a program's daemon, for people.
func WriteReport(to io.Writer, program string, r Report, now time.Time) error {
	w := newWriter(to, program, now)
	if r.Ready {
		w.line(program, "ready", "version "+r.Version, "started "+w.ago(r.Started))
	} else {
		w.line(program, "NOT READY", "version "+r.Version, "started "+w.ago(r.Started))
	}
	for _, m := range r.Missing {
		w.line("  reason", m)
	}
	if r.Remembered != nil {
		w.line("  store", "unreachable; using the network as saved at "+r.Remembered.UTC().Format(time.RFC3339))
	}
	w.line("node", r.Name, r.NodeID)
	if c := r.Clone; c != nil {
		w.line("  CLONE", c.String())
	}
	w.line("network", join(r.Network.Networks), r.Network.Backend, mtu(r.Network.MTU), strings.Join(r.Network.Devices, " and "))
	w.move(r.Network.Move)
	w.offload(r.Network.Offload)
	w.moved(r.Network.Moved)
	w.lease(r.Lease)
	for _, i := range r.Interfaces {
		words := []string{i.Family, i.Name, i.Address.String(), mtu(i.MTU), chosen(i.Why)}
		if i.Public != i.Address {
			words = append(words, "published as "+i.Public.String())
		}
		w.line("uplink", words...)
	}
	w.leases(r)
	w.store(r.Store)
	w.kernel(r.Kernel)
	w.commands(r.Commands)
	w.firewall(r.Firewall)
	w.probes(r.Probes)
	w.wireguard(r.WireGuard)
	for _, f := range r.Files {
		w.line("file", f.What+": "+f.Why)
	}
	for _, text := range r.Exposed {
		w.line("exposed", text)
	}
	for _, f := range r.Fights {
		w.line("fight", fmt.Sprintf("%s (%s), %s: %s", f.What, either(f.Owner, f.Kind), w.lasting(f.Since), f.Why()))
	}
	return w.Flush()
}

// lease writes the own lease.
func (w writer) lease(l *Lease) {
	if l == nil {
		w.line("lease", "none")
		return
	}
	words := []string{join(l.Subnets), "public IP " + join(l.Addresses)}
	if l.Reservation {
		words = append(words, "reservation")
	}
	if l.Since != nil {
		words = append(words, "held "+w.lasting(*l.Since))
	}
	if l.Renewed != nil {
		words = append(words, "renewed "+w.ago(*l.Renewed))
	}
	w.line("lease", words...)
}

// leases writes the number of peers, and the leases that are reserved or rejected.
func (w writer) leases(r Report) {
	w.line("peers", fmt.Sprint(r.Peers.All), w.unroutable(r.Peers.Unroutable), w.detours(r.Peers))
	if n := r.Reserved; n > 0 {
		w.line("  reserved", fmt.Sprintf("%d leases that no node uses (%s)", n, w.see("leases")))
	}
	for _, p := range r.Rejected {
		w.line("  rejected", p.Key+": "+p.Why)
	}
	if more := r.RejectedCount - len(r.Rejected); more > 0 {
		w.line("  rejected", fmt.Sprintf("%d more (%s)", more, w.see("leases")))
	}
}

// moved writes what the daemon itself has moved through each tunnel.
func (w writer) moved(all []Moved) {
	for _, m := range all {
		var why []string
		for _, reason := range slices.Sorted(maps.Keys(m.Dropped)) {
			if n := m.Dropped[reason]; n > 0 {
				why = append(why, fmt.Sprintf("%d %s", n, reason))
			}
		}
		words := []string{m.Device, fmt.Sprintf("%d packets sent", m.PacketsOut), fmt.Sprintf("%d received", m.PacketsIn)}
		if len(why) > 0 {
			words = append(words, "dropped: "+strings.Join(why, " and "))
		}
		w.line("  tunnel", words...)
	}
}

func (w writer) offload(o *Offload) {
	if o == nil {
		return
	}
	words := []string{"checksum offload disabled " + w.lasting(o.Since) + ": this host's network card or its driver breaks checksums in tunnels"}
	switch {
	case o.Trial:
		words = append(words, "trying it again now")
	case o.Next != nil:
		words = append(words, "next trial in "+span(o.Next.Sub(w.now)))
	}
	if o.Trials > 0 {
		words = append(words, fmt.Sprintf("%d trials failed", o.Trials))
	}
	w.line("  offload", words...)
}

func mtu(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("MTU %d", n)
}

// chosen returns why an uplink was chosen.
func chosen(why string) string {
	if why == "" {
		return ""
	}
	return "chosen by " + why
}

func (w writer) unroutable(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d UNROUTABLE (%s)", n, w.see("peers"))
}

func restored(n uint64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("drift restored %d times", n)
}

func (w writer) store(s Store) {
	words := []string{s.Kind, strings.Join(s.Endpoints, " ")}
	if s.Revision != 0 {
		words = append(words, fmt.Sprintf("revision %d", s.Revision))
	}
	if s.Watching != nil {
		words = append(words, "watching "+w.lasting(*s.Watching))
	}
	w.line("store", words...)
	if e := s.Etcd; e != nil {
		words := []string{e.State, e.Problem}
		if e.PID != 0 {
			words = append(words, fmt.Sprintf("process %d", e.PID), "version "+e.Version)
		}
		if e.Started != nil {
			words = append(words, "started "+w.ago(*e.Started))
		}
		w.line("  tulle-etcd", words...)
		if len(e.Ignored) > 0 {
			w.line("  ignored", strings.Join(e.Ignored, " ")+": etcd already has another config; change that, or the flags")
		}
	}
	for _, f := range s.Failing {
		w.line("  failing", f.What+": "+f.Why)
	}
	if s.Last != nil && s.LastAt != nil && len(s.Failing) == 0 {
		w.line("  last failure", w.ago(*s.LastAt), s.Last.What+": "+s.Last.Why)
	}
}

func (w writer) kernel(k Kernel) {
	state := "in sync"
	if !k.InSync {
		state = "NOT in sync"
	}
	var all uint64
	for _, n := range k.Healed {
		all += n
	}
	pending := ""
	if k.Pending > 0 {
		pending = fmt.Sprintf("%d pending", k.Pending)
	}
	kinds := ""
	for _, kind := range slices.Sorted(maps.Keys(k.Healed)) {
		if n := k.Healed[kind]; n > 0 {
			kinds += fmt.Sprintf(" %s %d", kind, n)
		}
	}
	if kinds != "" {
		kinds = restored(all) + " (" + strings.TrimSpace(kinds) + ")"
	}
	w.line("kernel", state+" "+w.lasting(k.Since), fmt.Sprintf("%d objects", k.Objects), pending,
		fmt.Sprintf("last full resync %s", w.ago(k.LastResync)), fmt.Sprintf("%.1f ms", k.ResyncMillis), kinds)
	for _, f := range k.Failing {
		w.line("  failing", fmt.Sprintf("%s (%s), %s: %s", f.What, f.Owner, w.lasting(f.Since), f.Why))
	}
	for _, p := range k.Problems {
		w.line("  problem", p)
	}
}

func (w writer) firewall(f Firewall) {
	switch {
	case f.Problem != "":
		w.line("firewall", "NOT in sync: "+f.Problem)
	case !f.Written:
		w.line("firewall", "not written yet")
	default:
		w.line("firewall", "in sync", restored(f.Healed))
	}
	for _, text := range f.Others {
		w.line("  foreign", text)
	}
}

func (w writer) probes(p *Probes) {
	if p == nil {
		return
	}
	failing := 0
	for _, n := range p.Failing {
		failing += n
	}
	words := []string{fmt.Sprintf("%d peers probed", p.Known)}
	switch {
	case p.Known == 0:
		words = []string{"no peer probed yet"}
	case failing > 0:
		words = append(words, fmt.Sprintf("%d FAIL (%s)", failing, w.see("peers")))
	default:
		words = append(words, "all answer")
	}
	if p.Passed > 0 {
		words = append(words, fmt.Sprintf("mean round trip %.2f ms", p.MeanMillis))
	}
	w.line("probes", words...)
	for _, e := range p.Examples {
		w.line("  failing", e.What+": "+e.Why)
	}
	for _, problem := range p.Problems {
		w.line("  problem", problem)
	}
}

func either(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// WriteExplanation writes e for people.
func WriteExplanation(to io.Writer, e Explanation) error {
	w := newWriter(to, "", time.Time{})
	w.line(e.Address.String(), e.Verdict)
	w.line("lease", e.Key, e.Node)
	w.line("kernel route", e.Path)
	if e.Tunnelled != "" {
		w.line("tunnel because", e.Tunnelled)
	}
	if p := e.Probes; p != nil && p.Problem != "" {
		w.line("probes", p.Problem)
	} else if p != nil {
		w.line("probes", fmt.Sprintf("answers in %.2f ms", p.Millis))
	}
	for _, s := range e.Sessions {
		handshake := "no handshake yet"
		if s.Handshake != nil {
			handshake = "last handshake " + s.Handshake.UTC().Format(time.RFC3339)
		}
		w.line("session", s.Device+" to "+dash(s.Endpoint), handshake, "received "+Bytes(s.Received), "sent "+Bytes(s.Sent))
	}
	for _, entry := range e.Entries {
		switch {
		case entry.OK:
			w.line("  ok", entry.Has)
		case entry.Has == "":
			w.line("  MISSING", entry.Want)
		case entry.Want == "":
			w.line("  UNEXPECTED", entry.Has)
		default:
			w.line("  WRONG", entry.Has+" should be "+entry.Want)
		}
	}
	return w.Flush()
}
