package web

import (
	"fmt"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/status"
)

// check is one thing that a node needs to be ready.
type check struct {
	Name string
	OK   bool
	// Text is why not, or what there is.
	Text string
}

const (
	// settling is how long the kernel may be out of sync: a peer that comes or
	// goes makes it so for a moment.
	settling = 30 * time.Second
	// stale is how long ago the last full resync may be; the daemon does one every
	// few minutes.
	stale = 15 * time.Minute
	// hostOwner owns what the kernel must hold for the node itself.
	hostOwner = "host"
	unknown   = "unknown: the daemon's main loop does not answer"
)

// checks returns all checks, in the order in which a starting node passes them.
func (r reading) checks() []check {
	return []check{
		r.loop(),
		r.config(),
		r.uplink(),
		r.lease(),
		{"peers", r.Listed, pick(r.Listed, count(r.Peers.All, "peer"), "the full list of leases has not arrived")},
		r.kernel(),
		r.firewall(),
		r.files(),
		{"node", r.Ready, pick(r.Ready, "nothing missing", strings.Join(r.Missing, "; "))},
	}
}

// ready reports whether all checks hold.
func ready(checks []check) bool {
	for _, c := range checks {
		if !c.OK {
			return false
		}
	}
	return true
}

func (r reading) loop() check {
	if r.stuck != nil {
		return check{"loop", false, r.stuck.Error()}
	}
	return check{"loop", true, "responding"}
}

func (r reading) config() check {
	if r.Network.Backend == "" {
		return check{"config", false, pick(r.stuck != nil, unknown, "no network config yet")}
	}
	return check{"config", true, join(r.Network.Networks) + " by " + r.Network.Backend}
}

func (r reading) uplink() check {
	if len(r.Interfaces) == 0 {
		return check{"interface", false, pick(r.stuck != nil, unknown, "no uplink")}
	}
	var names []string
	for _, i := range r.Interfaces {
		names = append(names, i.Name+" "+i.Address.String())
	}
	return check{"interface", true, strings.Join(names, ", ")}
}

func (r reading) lease() check {
	if r.Lease == nil {
		return check{"lease", false, pick(r.stuck != nil, unknown, "no subnet leased")}
	}
	return check{"lease", true, join(r.Lease.Subnets)}
}

// kernel passes over what fails of peers: one bad peer makes no node unready.
func (r reading) kernel() check {
	k := r.Kernel
	no := func(text string) check {
		return check{"kernel", false, strings.Join(append([]string{text}, k.Problems...), "; ")}
	}
	for _, f := range k.Failing {
		if f.Owner == hostOwner {
			return no("refuses " + f.What + ": " + f.Why)
		}
	}
	switch {
	case k.LastResync.IsZero():
		return no("no full resync yet")
	case r.at.Sub(k.LastResync) > stale:
		return no("last full resync " + ago(r.at, k.LastResync))
	case !k.InSync && len(k.Failing) == 0 && r.at.Sub(k.Since) > settling:
		return no("not in sync since " + ago(r.at, k.Since))
	}
	return check{"kernel", true, count(k.Objects, "object")}
}

func (r reading) firewall() check {
	switch f := r.Firewall; {
	case f.Problem != "":
		return check{"firewall", false, f.Problem}
	case !f.Written:
		return check{"firewall", false, "rules not written yet"}
	}
	return check{"firewall", true, "in sync"}
}

func (r reading) files() check {
	if len(r.Files) == 0 {
		return check{"files", true, "up to date"}
	}
	return check{"files", false, problems(r.Files)}
}

func problems(all []status.Problem) string {
	var texts []string
	for _, p := range all {
		texts = append(texts, p.What+": "+p.Why)
	}
	return strings.Join(texts, "; ")
}

func pick(yes bool, a, b string) string {
	if yes {
		return a
	}
	return b
}

func either(a, b string) string { return pick(a != "", a, b) }

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%s %ss", grouped(n), what)
}
