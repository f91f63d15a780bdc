package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tulle-net/tulle/pkg/controller/etcdlead"
	"github.com/tulle-net/tulle/pkg/controller/route"
	"github.com/tulle-net/tulle/pkg/flags"
	"github.com/tulle-net/tulle/subnet"
	"github.com/tulle-net/tulle/subnet/etcd"
)

// The types of the backends whose leases need routes in the cloud. Nodes of the second one
// send through a tunnel where the routes are missing.
const (
	allocType  = "alloc"
	nativeType = "cloud"
)

// configLimit is how long the network's config may take at the start.
const configLimit = 30 * time.Second

// etcdFlags are the flags of a network in etcd, as tulled has them. A password is only read
// from a file.
func (s *settings) etcdFlags() []flags.Flag {
	all := s.etcd.Flags(ofEtcd, flags.Flag{Name: "etcd-endpoints", About: "etcd URLs of a network of hosts without Kubernetes"})
	return slices.DeleteFunc(all, func(f flags.Flag) bool { return f.Name == "etcd-password" })
}

// written returns a flag as it is on a command line.
func written(flag string) string { return flags.Flag{Name: flag}.Written() }

// inEtcd reports whether nodes are leases in etcd, and not Nodes of Kubernetes.
func (s *settings) inEtcd() bool { return len(s.etcd.Endpoints) > 0 }

// checkEtcd rejects flags that have no effect without etcd, or with it.
func (s *settings) checkEtcd(g *flags.Given) error {
	for _, f := range s.table() {
		switch {
		case !g.Has(f.Name):
		case f.Group == ofEtcd && !s.inEtcd():
			return &flags.Error{Flag: g.From(f.Name), Why: "has no effect without --etcd-endpoints", Fix: "leave it out, or add --etcd-endpoints"}
		case f.Group == kubernetes && s.inEtcd():
			return &flags.Error{Flag: g.From(f.Name), Why: "conflicts with --etcd-endpoints, which is for hosts without Kubernetes", Fix: "keep one of the two"}
		}
	}
	if !s.inEtcd() {
		return nil
	}
	s.etcd.Finish()
	return s.etcd.Check(g.From)
}

// connectEtcd opens the network's store, and reads its config.
func (p *process) connectEtcd() (err error) {
	if p.store, err = etcd.Open(p.settings.etcd.Options(written)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), configLimit)
	defer cancel()
	if p.network, err = p.store.Config(ctx, subnet.Config{}); err != nil {
		return fmt.Errorf("read the network's config in etcd: %w", err)
	}
	return nil
}

// own begins the keys of this program. They lie behind the config and the leases, which
// each node lists as one range.
func (s settings) own() string { return strings.TrimRight(s.etcd.Prefix, "/") + "/tulle-controller" }

// leaseRoutes returns what the route controller needs for the leases of etcd.
func (p *process) leaseRoutes(o route.Options) route.Options {
	o.Cloud = route.Addressed{Cloud: p.cloud, Find: p.cloud.Addressed}
	o.Nodes = route.Leases{
		Store: p.store, BackendTypes: []string{allocType, nativeType}, Native: nativeType,
		Notices: etcdlead.Notices{Client: p.store.Client(), Prefix: strings.TrimRight(p.settings.etcd.Prefix, "/") + subnet.NoticesPrefix, Fence: p.fence},
	}
	o.Ledger = etcdlead.Ledger{Client: p.store.Client(), Prefix: p.settings.own(), Fence: p.fence}
	o.Within = nil
	for _, network := range p.network.Networks() {
		if network.IsValid() {
			o.Within = append(o.Within, network)
		}
	}
	return o
}

// fence returns what must hold when a leader's write to etcd takes effect. Without leader
// election there is no such condition.
func (p *process) fence() []clientv3.Cmp {
	if e, ok := p.elector.(*etcdlead.Elector); ok {
		return e.Guard()
	}
	return nil
}

// etcdElector returns the elector of replicas that share an etcd.
func (p *process) etcdElector() elector {
	e := p.settings.elect
	return etcdlead.New(etcdlead.Options{
		Client: p.store.Client(), Prefix: p.settings.own(), Identity: p.name,
		LeaseDuration: e.LeaseDuration, RenewDeadline: e.RenewDeadline, RetryPeriod: e.RetryPeriod, Changed: p.elected,
	})
}
