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
// D-Bus has the old one in a file, systemd uses that.
const newMachineID = "rm -f /etc/machine-id /var/lib/dbus/machine-id; systemd-machine-id-setup; systemctl restart tulled"

// installation distinguishes this host from others with the same ID. It is empty in
// Kubernetes, where the Node's name does that.
type installation struct {
	identity *identity.Identity
	presence *probe.Presence // nil without probes
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

// lives asks at a lease's public IPs. It reports whether its holder is alive there
// and is not this process. If the lease has this installation's instance, the holder
// must prove the secret, because another host may have the old address of a
// renumbered node.
func (i installation) lives(ctx context.Context, l subnet.Lease) bool {
	answers := make(chan probe.Resident, len(l.PublicIP))
	asked := 0
	for _, ip := range l.PublicIP {
		if ip.IsValid() {
			asked++
			go func() { answers <- i.presence.Ask(ctx, ip, identity.Keys(l.Node)) }()
		}
	}
	var all []probe.Resident
	for range asked {
		all = append(all, <-answers)
	}
	if l.Node.Instance == i.identity.Node().Instance {
		return slices.Contains(all, probe.Twin)
	}
	return slices.Contains(all, probe.Twin) || slices.Contains(all, probe.OtherDaemon)
}

// asks returns lives, or nil without probes.
func (i installation) asks() func(context.Context, subnet.Lease) bool {
	if i.presence == nil {
		return nil
	}
	return i.lives
}
