package network

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/subnet"
)

const (
	// settling is how long the kernel may be out of sync. Each peer that comes or
	// goes causes that for a moment.
	settling = 30 * time.Second
	// stale is the age at which the last full resync is too old. There is one every
	// few minutes.
	stale = 15 * time.Minute
)

// Checks returns whether the node is ready, and why not. All reports of readiness use
// it.
func (v View) Checks() status.Checks {
	return status.Checks{
		v.checkLoop(), v.checkConfig(), v.checkUplink(), v.checkLease(), v.checkPeers(),
		v.checkKernel(), v.checkFirewall(), v.checkFiles(), v.checkNode(),
	}
}

func (v View) checkLoop() status.Check {
	c := status.Check{Name: "loop", Text: "responding"}
	if v.Stuck != nil {
		c.Missing = []string{v.Stuck.Error()}
	}
	return c
}

// check returns a check that fails while the node waits for r, or with none as its
// reason unless that is "".
func (v View) check(name string, r reason, none, text string) status.Check {
	c := status.Check{Name: name, Text: text}
	switch why, waits := v.Waiting[r]; {
	case v.Stuck != nil:
		c.Missing = []string{status.Unknown}
	case waits:
		c.Missing = []string{why}
	case none != "":
		c.Missing = []string{none}
	}
	return c
}

// unless returns why, or "" if there is true.
func unless(there bool, why string) string {
	if there {
		return ""
	}
	return why
}

func (v View) checkConfig() status.Check {
	text := join(valid(v.Config.Networks())) + " by " + v.Config.Backend.Type
	if v.Move != nil {
		text += ", " + v.Move.text()
	}
	c := v.check("config", onConfig, unless(v.Config != (subnet.Config{}), "no network config yet"), text)
	if v.Move != nil && v.At.Sub(v.Move.since) > longMove {
		c.Degraded = append(c.Degraded, fmt.Sprintf("the move to the backend %s does not end: %s", v.Config.Backend.Type, v.Move.text()))
	}
	return c
}

// checkUplink ignores a lost uplink if all peers are on the link: they need no
// default route.
func (v View) checkUplink() status.Check {
	var names []string
	for _, i := range v.interfaces() {
		names = append(names, i.Name+" "+i.Address.String())
	}
	c := v.check("interface", onUplink, unless(len(names) > 0, "no uplink yet"), strings.Join(names, ", "))
	if v.Stuck == nil && len(names) > 0 && v.onLink() {
		if why, lost := v.Waiting[onUplink]; lost {
			c.Text, c.Missing = c.Text+", for peers on the link only: "+why, nil
		}
	}
	return c
}

// checkLease also fails once the lease has ended. The kernel keeps everything: the
// peers may not know it yet, and the store may be back soon.
func (v View) checkLease() status.Check {
	c := v.check("lease", onLease, unless(v.Own != (subnet.Lease{}), "no subnet leased"), join(valid(v.Own.Subnets)))
	if v.Stuck != nil || !v.expired() {
		return c
	}
	switch why, works := v.whyExpired(); {
	case works:
		c.Degraded = append(c.Degraded, why)
	default:
		c.Missing = append(c.Missing, why)
	}
	return c
}

func (v View) checkPeers() status.Check {
	text := fmt.Sprintf("%d peers", v.Peers.Count)
	if v.Peers.Count == 1 {
		text = "1 peer"
	}
	return v.check("peers", onList, unless(v.listed(), "the full list of leases has not arrived"), text)
}

// checkKernel ignores failing objects of peers: one bad peer must not make the node
// unready.
func (v View) checkKernel() status.Check {
	k := v.Kernel
	c := status.Check{Name: "kernel", Text: fmt.Sprintf("%d objects", k.Objects)}
	waits := ""
	if why, ok := v.Waiting[onKernel]; ok {
		waits = why
		c.Missing = append(c.Missing, why)
	}
	for _, f := range k.Failing {
		if f.Owner == ownerHost {
			c.Missing = append(c.Missing, refusal(f.Key, f.Err))
		}
	}
	for _, f := range k.Fights {
		if f.Owner == ownerHost && f.Lost() {
			c.Missing = append(c.Missing, fmt.Sprintf("%s: %s", f.Key, f.Fight))
		}
	}
	// Until all peers are known, as while the store is down, what is stale stays.
	inSync := k.InSync || !k.Complete && k.Pending == 0
	switch {
	case k.LastResync.IsZero() && waits == "":
		c.Missing = append(c.Missing, "no full resync with the kernel yet")
	case k.LastResync.IsZero():
	case v.At.Sub(k.LastResync) > stale:
		c.Degraded = append(c.Degraded, "last full resync with the kernel "+ago(v.At, k.LastResync))
	case !inSync && len(k.Failing) == 0 && waits == "" && v.At.Sub(k.Since) > settling:
		c.Degraded = append(c.Degraded, "the kernel is not in sync since "+ago(v.At, k.Since))
	}
	if !c.OK() {
		c.Degraded = append(c.Degraded, kernelProblems(k)...)
	}
	return c
}

// refusal says what fails, and why.
func refusal(k netstate.Key, err error) string {
	if k.Kind == netstate.KindCommand {
		return fmt.Sprintf("the command %s fails: %v", k, err)
	}
	return fmt.Sprintf("the kernel refuses %s: %v", k, err)
}

// ago returns how long t was before now.
func ago(now, t time.Time) string { return now.Sub(t).Round(time.Second).String() + " ago" }

func (v View) checkFirewall() status.Check {
	c := status.Check{Name: "firewall", Text: "in sync"}
	if !v.Firewall.Tried {
		c.Missing = []string{"writing the firewall rules"}
	}
	if err := v.Firewall.Err; err != nil {
		c.Degraded = []string{"firewall not in sync: " + err.Error()}
	}
	return c
}

func (v View) checkFiles() status.Check {
	c := status.Check{Name: "files", Text: "up to date"}
	if why, waits := v.Waiting[onFiles]; waits {
		c.Missing = append(c.Missing, why)
	}
	for _, path := range slices.Sorted(maps.Keys(v.Files)) {
		c.Missing = append(c.Missing, fmt.Sprintf("%s is out of date: %v", path, v.Files[path]))
	}
	return c
}

// checkNode checks what no other check does. A bridge that does not match is for
// others to change. A config that waits for a restart leaves the network working.
// Both only degrade the node.
func (v View) checkNode() status.Check {
	c := v.check("node", onBackend, "", "nothing missing")
	for _, r := range []reason{onRestart, onBridge} {
		if why, waits := v.Waiting[r]; waits {
			c.Degraded = append(c.Degraded, why)
		}
	}
	return c
}

func join[T fmt.Stringer](all []T) string {
	words := make([]string, len(all))
	for i, v := range all {
		words[i] = v.String()
	}
	return strings.Join(words, ", ")
}

// Line returns the node's state in one line.
func (v View) Line() string {
	text := "no subnet yet"
	switch {
	case v.Stuck != nil:
		text = "state unknown"
	case v.Own != (subnet.Lease{}):
		text = fmt.Sprintf("%s on %s, %d peers", v.Own.Key(), v.Own.BackendType, v.Peers.Count)
	}
	if !v.Remembered.IsZero() {
		text += ", store unreachable: using the network as saved at " + v.Remembered.UTC().Format(time.RFC3339)
	}
	if n := len(v.Kernel.Failing); n > 0 {
		what, first := "the kernel refuses", v.Kernel.Failing[0]
		if first.Key.Kind == netstate.KindCommand {
			what = "commands fail for"
		}
		text += fmt.Sprintf(", %s %d objects, first %s: %v", what, n, first.Key, first.Err)
	}
	if n := len(v.fights()); n > 0 {
		text += fmt.Sprintf(", another program keeps changing %d objects, rules or files, first %s", n, v.fights()[0].What)
	}
	for i, m := range v.Checks().Missing() {
		if i == 0 {
			text += "; not ready: "
		} else {
			text += "; "
		}
		text += m
	}
	return text
}
