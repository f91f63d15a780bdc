package daemon

import (
	"context"
	"slices"

	"github.com/tulle-net/tulle/pkg/identity"
	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/pkg/probe"
	"github.com/tulle-net/tulle/subnet"
)

// newMachineID is the command that gives a machine a machine-id of its own. While
// D-Bus has the old one in a file, systemd takes it from there.
const newMachineID = "rm -f /etc/machine-id /var/lib/dbus/machine-id; systemd-machine-id-setup; systemctl restart tulled"

// installation tells this host from others that go by the same ID. In Kubernetes,
// where the Node's name does, it is empty.
type installation struct {
	identity *identity.Identity
	presence *probe.Presence // nil where it is not wanted
}

func openInstallation(o options.Options, node subnet.Node) installation {
	fix := newMachineID
	if o.Node.ID != "" {
		fix = "give each machine a --node-id of its own, and restart tulled"
	}
	i := installation{identity: identity.Open(identity.Options{Dir: o.StateDir, Node: node, Fix: fix, Hardware: identity.ReadHardware("/sys")})}
	if o.Probes.Interval != 0 {
		i.presence = probe.NewPresence(o.Probes.Port, i.identity.Prove)
	}
	return i
}

// lives asks the holder of a lease whether it is another than this process. One
// that should have this installation's secret must prove it: of a node that was
// renumbered the old address may be anybody's now.
func (i installation) lives(ctx context.Context, l subnet.Lease) bool {
	answers := make(chan probe.Who, len(l.PublicIP))
	asked := 0
	for _, ip := range l.PublicIP {
		if ip.IsValid() {
			asked++
			go func() { answers <- i.presence.Ask(ctx, ip) }()
		}
	}
	var all []probe.Who
	for range asked {
		all = append(all, <-answers)
	}
	if l.Node.Instance == i.identity.Node().Instance {
		return slices.Contains(all, probe.Twin)
	}
	return slices.Contains(all, probe.Twin) || slices.Contains(all, probe.Other)
}

// asks returns lives, or nil where nobody is to be asked.
func (i installation) asks() func(context.Context, subnet.Lease) bool {
	if i.presence == nil {
		return nil
	}
	return i.lives
}
