package options

import (
	"fmt"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/etcdflags"
	"github.com/tulle-net/tulle/pkg/flags"
)

// check rejects flags that conflict, and completes values that depend on several
// flags.
func (o *Options) check(g *flags.Given) error {
	for _, check := range []func(*Options, *flags.Given) error{
		(*Options).checkEtcd, (*Options).checkEmbedded, (*Options).checkLease, (*Options).checkSeed,
	} {
		if err := check(o, g); err != nil {
			return err
		}
	}
	o.Etcd.Finish()
	o.warn(g)
	return nil
}

func (o *Options) checkEtcd(g *flags.Given) error { return o.Etcd.Check(g.From) }

func (o *Options) checkEmbedded(g *flags.Given) error {
	if !o.Embedded.On {
		for _, name := range []string{"etcd-listen", "etcd-listen-without-client-certs", "network", "backend"} {
			if g.Has(name) {
				return &flags.Error{Flag: g.From(name), Why: "needs --etcd-embedded"}
			}
		}
		o.Embedded = Embedded{}
		return nil
	}
	if g.Has("etcd-endpoints") {
		return &flags.Error{
			Flag: g.From("etcd-endpoints"), Why: "conflicts with " + g.From("etcd-embedded"), Fix: "keep one of the two",
		}
	}
	o.Etcd.Endpoints = nil
	if o.Command == Leases {
		o.Etcd.Endpoints = []string{o.Embedded.Listen}
	}
	if g.Has("backend") && !g.Has("network") {
		return &flags.Error{Flag: g.From("backend"), Why: "needs --network"}
	}
	refusal := &flags.Error{Flag: g.From("etcd-listen"), Value: o.Embedded.Listen}
	scheme, _, _ := strings.Cut(o.Embedded.Listen, ":")
	switch {
	case scheme == "http" && !etcdflags.Loopback(o.Embedded.Listen):
		refusal.Why, refusal.Fix = "unencrypted, and beyond loopback anyone could read and change the network", "use https, with --etcd-certfile and --etcd-keyfile"
		return refusal
	case (scheme == "https" || scheme == "unixs") && o.Etcd.CertFile == "":
		refusal.Why, refusal.Fix = scheme+" needs a certificate", "add --etcd-certfile and --etcd-keyfile"
		return refusal
	case scheme == "https" && !etcdflags.Loopback(o.Embedded.Listen) && o.Etcd.CAFile == "" && !o.Embedded.AnyClient:
		refusal.Why = "without client certificates anyone who reaches it could rewrite the network"
		refusal.Fix = "add --etcd-cafile; --etcd-listen-without-client-certs allows it nevertheless"
		return refusal
	}
	return nil
}

func (o *Options) checkLease(g *flags.Given) error {
	const margin = "subnet-lease-renew-margin"
	switch {
	case o.RenewMargin < o.LeaseTTL:
	case g.Has(margin):
		return &flags.Error{
			Flag: g.From(margin), Value: g.Last(margin), Why: fmt.Sprintf("not shorter than a lease, which lasts %s", span(o.LeaseTTL)),
			Fix: fmt.Sprintf("lower it, or raise %s", g.From("subnet-lease-ttl")),
		}
	default:
		o.RenewMargin = o.LeaseTTL / 2
	}
	return nil
}

// span returns a duration without trailing zero units.
func span(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}

func (o *Options) checkSeed(g *flags.Given) error {
	if err := o.trySeed(); err != nil {
		return flags.At(g.From("network"), err, false)
	}
	return nil
}

// warn adds warnings about flags that have no effect.
func (o *Options) warn(g *flags.Given) {
	if g.From("etcd-password") == "--etcd-password" && o.Etcd.Password != (flags.Secret{}) {
		o.Warnings = append(o.Warnings, "--etcd-password is visible in the process list until tulled hides it; use --etcd-password-file")
	}
	if o.Embedded.AnyClient {
		switch {
		case o.Etcd.CAFile != "":
			o.Warnings = append(o.Warnings, g.From("etcd-listen-without-client-certs")+" has no effect with --etcd-cafile")
		case !strings.HasPrefix(o.Embedded.Listen, "unix") && !etcdflags.Loopback(o.Embedded.Listen):
			o.Warnings = append(o.Warnings, g.From("etcd-listen-without-client-certs")+": anyone who reaches "+o.Embedded.Listen+" can rewrite the network; use --etcd-cafile")
		}
	}
	urls, in := o.Etcd.Endpoints, "etcd-endpoints"
	if o.Embedded.On {
		urls, in = []string{o.Embedded.Listen}, "etcd-listen"
	}
	for _, name := range []string{"etcd-cafile", "etcd-certfile"} {
		if g.Has(name) && !etcdflags.Encrypted(urls) {
			o.Warnings = append(o.Warnings, g.From(name)+" has no effect with http; use https in "+g.From(in))
		}
	}
	for _, name := range []string{"healthz-ip", "pprof", "peer-metrics"} {
		if g.Has(name) && o.Health.Port == 0 {
			o.Warnings = append(o.Warnings, g.From(name)+" has no effect without --healthz-port")
		}
	}
	masquerades := o.Filtering.Masquerades()
	for _, name := range []string{"no-masq-cidrs", "no-masq-cidrs-file"} {
		if g.Has(name) && !masquerades {
			o.Warnings = append(o.Warnings, g.From(name)+" has no effect without --ip-masq")
		}
	}
	if masquerades && o.Filtering.Filter == FilterNone {
		o.Warnings = append(o.Warnings, g.From("ip-masq")+" has no effect on the firewall with "+g.From("filter")+"=none; the env file still says that tulle masquerades")
	}
}
