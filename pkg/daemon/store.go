package daemon

import (
	"cmp"
	"context"
	"io"
	"net/netip"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/hostif"
	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/trouble"
	"github.com/tulle-net/tulle/subnet"
	"github.com/tulle-net/tulle/subnet/etcd"
	"github.com/tulle-net/tulle/subnet/kube"
)

// Store holds the leases of the network, in etcd or in Kubernetes.
type Store interface {
	subnet.Store
	subnet.Noticer
	io.Closer
	Status() trouble.Status
	// Reload reads again what sends no change notification.
	Reload() error
}

// OpenStore returns the store that o names. It does not wait for a server.
func OpenStore(o options.Options) (Store, error) {
	if o.Kube.On {
		return openNodes(o.Kube)
	}
	return openEtcd(o, nil)
}

// openEtcd returns a store in etcd. Lives reports whether the holder of a lease is
// alive; nil disables that.
func openEtcd(o options.Options, lives func(context.Context, subnet.Lease) bool) (Store, error) {
	e := o.Etcd.Options(options.Name)
	e.TTL, e.RenewMargin, e.Answers = o.LeaseTTL, o.RenewMargin, lives
	e.Names.Address = options.Name("public-ip") + ", " + options.Name("iface")
	return etcd.Open(e)
}

// nodeStore is a store as a daemon uses it, with what depends on its kind.
type nodeStore struct {
	Store
	is      status.Store // what it is
	network string       // the network's name in the store
	node    subnet.Node  // this node
	installation
	uplinks hostif.Spec
	nodes   *kube.Store // the same store, if it is in Kubernetes
}

// openNodeStore opens the store for the daemon. In Kubernetes, a Node identifies the
// host. If only the pod is known, openNodeStore asks the API server for its Node.
func openNodeStore(ctx context.Context, o options.Options) (nodeStore, error) {
	p := nodeStore{uplinks: hostif.Spec{
		Ifaces: o.Uplink.Ifaces, IfaceRegexes: o.Uplink.IfaceRegexes, FromNodeIP: o.Uplink.FromNodeIP,
		CanReach: o.Uplink.CanReach, PublicIP: o.Uplink.PublicIP, Names: uplinkNames,
	}}
	var err error
	if !o.Kube.On {
		p.is, p.network = status.Store{Kind: "etcd", Endpoints: o.Etcd.Endpoints}, o.Etcd.Prefix
		if p.node, err = identify(o.Node); err != nil {
			return p, err
		}
		p.installation = openInstallation(o, p.node)
		p.node = p.identity.Node()
		p.Store, err = openEtcd(o, p.asks())
		return p, err
	}
	if p.nodes, err = openNodes(o.Kube); err != nil {
		return p, err
	}
	p.Store, p.is, p.network = p.nodes, status.Store{Kind: "kubernetes", Endpoints: []string{p.nodes.Server()}}, "kubernetes "+o.Kube.Prefix
	name := o.Kube.NodeName
	if name == "" {
		klog.InfoS("Asking the API server for this pod's Node", "namespace", o.Kube.PodNamespace, "pod", o.Kube.PodName)
		if name, err = p.nodes.Node(ctx); err != nil {
			p.Close()
			return p, err
		}
	}
	p.node = subnet.Node{ID: name, Name: name}
	return p, nil
}

// hints reports the store's facts about this host to a function, at first and after
// each change. It is nil if the store has none.
func (p nodeStore) hints(o options.Uplink) func(context.Context, func(hostif.Spec)) {
	if p.nodes == nil {
		return nil
	}
	return func(ctx context.Context, to func(hostif.Spec)) {
		var facts kube.Facts
		for known := (*kube.Facts)(nil); ; known = &facts {
			var err error
			if facts, err = p.nodes.Facts(ctx, known); err != nil {
				return // it ends only when ctx ends
			}
			to(withFacts(p.uplinks, facts, o.External))
		}
	}
}

// withFacts returns a spec with the cluster's facts. An annotation that a person wrote
// to this Node overrides a flag, because usually all nodes have the same flags.
func withFacts(spec hostif.Spec, facts kube.Facts, external bool) hostif.Spec {
	spec.NodeIP, spec.Published = facts.Internal, facts.Overwrite
	for f := range subnet.Families {
		spec.PublicIP[f] = cmp.Or(facts.Public[f], spec.PublicIP[f])
		if external && spec.Published[f] == (netip.Addr{}) && spec.PublicIP[f] == (netip.Addr{}) {
			spec.Published[f] = facts.External[f]
		}
	}
	return spec
}

func openNodes(o options.Kube) (*kube.Store, error) {
	return kube.Open(kube.Options{
		Server: o.Server, Kubeconfig: o.Kubeconfig, NodeName: o.NodeName, PodName: o.PodName, PodNamespace: o.PodNamespace,
		Prefix: o.Prefix, ConfigFile: o.ConfigFile, Program: options.Program, Names: kubeNames,
	})
}
