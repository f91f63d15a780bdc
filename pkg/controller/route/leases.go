package route

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/subnet"
)

// Leases is a Source of the leases of a network in etcd, without Kubernetes. Each lease is a
// node. Its public IP identifies the instance.
type Leases struct {
	Store subnet.Store
	// BackendTypes are the types of leases that need routes. Native is the one whose nodes
	// read notices.
	BackendTypes []string
	Native       string
	Notices      NoticeStore
}

// NoticeStore stores notices by the keys of leases.
type NoticeStore interface {
	Read(ctx context.Context) (map[string]string, error)
	// Set writes a notice, or removes it if it is empty.
	Set(ctx context.Context, key, notice string) error
}

// Missing implements Source.
func (Leases) Missing() string {
	return "the lease has no public IP, so its instance is not known; restart the node's daemon"
}

// Ref implements Source.
func (Leases) Ref(n Node) controller.Ref {
	return controller.Ref{Kind: "Lease", Name: n.Name, UID: n.UID}
}

// SetCondition implements Source. It returns nil, because leases have no conditions.
func (Leases) SetCondition() func(context.Context, Node, bool) error { return nil }

// SetNotice implements Source.
func (l Leases) SetNotice(ctx context.Context, n Node, notice string) error {
	return l.Notices.Set(ctx, n.Name, notice)
}

// ReadNotices implements Source.
func (l Leases) ReadNotices() func(context.Context) (map[string]string, error) {
	if l.Notices == nil {
		return nil
	}
	return l.Notices.Read
}

// Follow implements Source.
func (l Leases) Follow(e *controller.Engine, to Follower) {
	controller.FollowStream(e, controller.Stream[Node]{
		What: "leases", Watch: l.watch,
		List: func(all map[string]Node) {
			for key, n := range all {
				if n.Name == "" {
					delete(all, key)
				}
			}
			to.List(all)
		},
		Set: func(key string, n Node) {
			if n.Name == "" {
				to.Delete(key)
			} else {
				to.Set(key, n)
			}
		},
		Delete: to.Delete,
	})
}

// watch passes the store's leases to a Sink.
func (l Leases) watch(ctx context.Context, to controller.Sink[Node]) {
	err := l.Store.Watch(ctx, func(u subnet.Update) {
		to.Report(nil)
		all := make(map[string]Node, len(u.Leases))
		for _, lease := range u.Leases {
			all[lease.Key()] = l.node(lease)
		}
		for _, bad := range u.Bad {
			all[bad.Key] = unreadable(bad)
		}
		if u.Complete {
			to.List(all)
			return
		}
		for key, n := range all {
			to.Set(key, n)
		}
		for _, key := range u.Gone {
			to.Delete(key)
		}
	})
	if ctx.Err() == nil {
		to.Report(err)
	}
}

// node converts a lease to a node. The node has no name if the lease needs no route.
func (l Leases) node(lease subnet.Lease) (n Node) {
	if !slices.Contains(l.BackendTypes, lease.BackendType) {
		return Node{}
	}
	n.ReadsNotices = l.Notices != nil && lease.BackendType == l.Native
	n.Name, n.UID, n.Created, n.Version = lease.Key(), lease.Identity(), lease.Created, fmt.Sprint(lease.Revision)
	n.PublicIP = lease.PublicIP
	for f, p := range lease.Subnets {
		if p.IsValid() {
			n.Ranges = append(n.Ranges, p.String())
		}
		if address := lease.PublicIP[f]; address.IsValid() {
			n.ProviderID = cmp.Or(n.ProviderID, address.String())
		}
	}
	return n
}

// unreadable returns the node of a lease that cannot be parsed. It keeps the lease's routes,
// because the lease may belong to a living node.
func unreadable(bad *subnet.LeaseError) (n Node) {
	subnets, err := subnet.ParseKey(bad.Key)
	if err != nil {
		return Node{}
	}
	n.Name, n.UID = bad.Key, "unreadable"
	for _, p := range subnets {
		if p.IsValid() {
			n.Ranges = append(n.Ranges, p.String())
		}
	}
	return n
}

// Addressed is a Cloud that finds instances by their addresses. The provider IDs of Leases are
// addresses.
type Addressed struct {
	Cloud
	Find func(ctx context.Context, addresses []string) (map[string]cloud.Instance, error)
}

// Instances implements Cloud.
func (a Addressed) Instances(ctx context.Context, addresses []string) (map[string]cloud.Instance, error) {
	return a.Find(ctx, addresses)
}
