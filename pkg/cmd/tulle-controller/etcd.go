package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tulle-net/tulle/pkg/controller/etcdlead"
	"github.com/tulle-net/tulle/pkg/controller/route"
	"github.com/tulle-net/tulle/pkg/flags"
	"github.com/tulle-net/tulle/subnet"
	"github.com/tulle-net/tulle/subnet/etcd"
)

// etcdSettings locate a network in etcd, in the place of a cluster of Kubernetes.
type etcdSettings struct {
	endpoints    []string
	prefix       string
	cert, key    string
	ca           string
	user         string
	passwordFile string
}

// allocType is the type of the backend whose leases need routes in the cloud.
const allocType = "alloc"

// configLimit is how long the network's config may take at the start.
const configLimit = 30 * time.Second

// etcdFlags are the flags of a network in etcd, with the names that tulled has for them.
func (s *settings) etcdFlags() []flags.Flag {
	return []flags.Flag{
		{Name: "etcd-endpoints", Group: ofEtcd, Value: "URLS",
			About: "etcd of a network of hosts, in the place of Kubernetes",
			Set:   flags.To(&s.etcd.endpoints, readEndpoints)},
		{Name: "etcd-prefix", Group: ofEtcd, Value: "KEY", Default: "/coreos.com/network",
			About: "prefix of the network's keys",
			Set:   flags.To(&s.etcd.prefix, readPrefix)},
		{Name: "etcd-cafile", Group: ofEtcd, Value: "FILE",
			About: "certificate authorities of etcd",
			Set:   flags.To(&s.etcd.ca, flags.File)},
		{Name: "etcd-certfile", Group: ofEtcd, Value: "FILE",
			About: "certificate of this program for etcd",
			Set:   flags.To(&s.etcd.cert, flags.File)},
		{Name: "etcd-keyfile", Group: ofEtcd, Value: "FILE",
			About: "private key of --etcd-certfile",
			Set:   flags.To(&s.etcd.key, flags.File)},
		{Name: "etcd-username", Group: ofEtcd, Value: "NAME",
			About: "user of etcd; needs --etcd-password-file",
			Set:   flags.To(&s.etcd.user, readUser)},
		{Name: "etcd-password-file", Group: ofEtcd, Value: "FILE",
			About: "file with the password of the etcd user",
			Set:   flags.To(&s.etcd.passwordFile, flags.File)},
	}
}

// inEtcd reports whether nodes are leases in etcd, and not Nodes of Kubernetes.
func (s *settings) inEtcd() bool { return len(s.etcd.endpoints) > 0 }

// storeOptions returns where the network is.
func (s *settings) storeOptions() etcd.Options {
	e := s.etcd
	return etcd.Options{
		Endpoints: e.endpoints, Prefix: e.prefix, CertFile: e.cert, KeyFile: e.key, CAFile: e.ca, Username: e.user, PasswordFile: e.passwordFile,
		Names: etcd.Names{
			Endpoints: "--etcd-endpoints", CertFile: "--etcd-certfile", KeyFile: "--etcd-keyfile", CAFile: "--etcd-cafile",
			Username: "--etcd-username", PasswordFile: "--etcd-password-file",
		},
	}
}

// checkEtcd refuses what has no effect without etcd, or with it.
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
	if err := s.storeOptions().Check(); err != nil {
		name, why, _ := strings.Cut(err.Error(), ": ")
		return &flags.Error{Flag: name, Why: why}
	}
	return nil
}

// connectEtcd opens the network's store, and reads its config.
func (p *process) connectEtcd() (err error) {
	if p.store, err = etcd.Open(p.settings.storeOptions()); err != nil {
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
func (s settings) own() string { return strings.TrimRight(s.etcd.prefix, "/") + "/tulle-controller" }

// leaseRoutes returns what the route controller needs for the leases of etcd.
func (p *process) leaseRoutes(o route.Options) route.Options {
	o.Cloud = route.Addressed{Cloud: p.cloud, Find: p.cloud.Addressed}
	o.Nodes = route.Leases{Store: p.store, BackendType: allocType}
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

// readEndpoints reads URLs, joined by commas.
func readEndpoints(value string) (all []string, err error) {
	for text := range strings.SplitSeq(value, ",") {
		text = strings.TrimSpace(text)
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
			return nil, flags.Refuse("a URL", "not the URL of an etcd, or one with a user or a path", "use one like https://192.0.2.7:2379, and --etcd-username")
		}
		all = append(all, u.Scheme+"://"+u.Host)
	}
	return all, nil
}

func readPrefix(value string) (string, error) {
	if !strings.HasPrefix(value, "/") || strings.Trim(value, "/") == "" || !flags.Printable(value) {
		return "", flags.Refuse(value, "not a prefix of keys", "use one like /coreos.com/network")
	}
	return value, nil
}

func readUser(value string) (string, error) {
	if !flags.Printable(value) {
		return "", flags.Refuse(value, "not a user name", "use the name of an etcd user")
	}
	return value, nil
}
