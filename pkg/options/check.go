package options

import (
	"fmt"
	"strings"
	"time"
)

// check refuses flags that conflict, and completes values that depend on several
// flags.
func (o *Options) check(g givens) error {
	for _, check := range []func(*Options, givens) error{
		(*Options).checkPassword, (*Options).checkCertificate, (*Options).checkEmbedded, (*Options).checkLease, (*Options).checkSeed,
	} {
		if err := check(o, g); err != nil {
			return err
		}
	}
	o.Etcd.finish()
	o.warn(g)
	return nil
}

func (o *Options) checkPassword(g givens) error {
	switch password, inFile := g.has("etcd-password"), g.has("etcd-password-file"); {
	case password && inFile:
		return &Error{Flag: g.from("etcd-password"), Why: "conflicts with " + g.from("etcd-password-file"), Fix: "keep one of the two, preferably the file"}
	case password && o.Etcd.Username == "":
		return &Error{Flag: g.from("etcd-password"), Why: "needs --etcd-username"}
	case inFile && o.Etcd.Username == "":
		return &Error{Flag: g.from("etcd-password-file"), Why: "needs --etcd-username"}
	case !password && !inFile && o.Etcd.Username != "":
		return &Error{Flag: g.from("etcd-username"), Why: "needs --etcd-password-file"}
	}
	return nil
}

func (o *Options) checkCertificate(g givens) error {
	for _, pair := range [][2]string{{"etcd-certfile", "etcd-keyfile"}, {"etcd-keyfile", "etcd-certfile"}} {
		if g.has(pair[0]) && !g.has(pair[1]) {
			return &Error{Flag: g.from(pair[0]), Why: "needs --" + pair[1]}
		}
	}
	return nil
}

func (o *Options) checkEmbedded(g givens) error {
	if !o.Embedded.On {
		for _, name := range []string{"etcd-listen", "network", "backend"} {
			if g.has(name) {
				return &Error{Flag: g.from(name), Why: "needs --etcd-embedded"}
			}
		}
		o.Embedded = Embedded{}
		return nil
	}
	if g.has("etcd-endpoints") {
		return &Error{
			Flag: g.from("etcd-endpoints"), Why: "conflicts with " + g.from("etcd-embedded"), Fix: "keep one of the two",
		}
	}
	o.Etcd.Endpoints = nil
	if o.Command == Leases {
		o.Etcd.Endpoints = []string{o.Embedded.Listen}
	}
	if g.has("backend") && !g.has("network") {
		return &Error{Flag: g.from("backend"), Why: "needs --network"}
	}
	refusal := &Error{Flag: g.from("etcd-listen"), Value: o.Embedded.Listen}
	scheme, _, _ := strings.Cut(o.Embedded.Listen, ":")
	switch {
	case scheme == "http" && !loopback(o.Embedded.Listen):
		refusal.Why, refusal.Fix = "unencrypted, and beyond loopback anyone could read and change the network", "use https, with --etcd-certfile and --etcd-keyfile"
		return refusal
	case (scheme == "https" || scheme == "unixs") && o.Etcd.CertFile == "":
		refusal.Why, refusal.Fix = scheme+" needs a certificate", "add --etcd-certfile and --etcd-keyfile"
		return refusal
	}
	return nil
}

func (o *Options) checkLease(g givens) error {
	const margin = "subnet-lease-renew-margin"
	switch {
	case o.RenewMargin < o.LeaseTTL:
	case g.has(margin):
		return &Error{
			Flag: g.from(margin), Value: g.last(margin), Why: fmt.Sprintf("not shorter than a lease, which lasts %s", span(o.LeaseTTL)),
			Fix: fmt.Sprintf("lower it, or raise %s", g.from("subnet-lease-ttl")),
		}
	default:
		o.RenewMargin = o.LeaseTTL / 2
	}
	return nil
}

// span is a duration without the zeros at its end.
func span(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}

func (o *Options) checkSeed(g givens) error {
	if err := o.trySeed(); err != nil {
		return at(g.from("network"), err, false)
	}
	return nil
}

// warn adds warnings about flags that have no effect.
func (o *Options) warn(g givens) {
	if g["etcd-password"].from == "--etcd-password" && o.Etcd.Password != (Secret{}) {
		o.Warnings = append(o.Warnings, "--etcd-password is visible in the process list until tulled hides it; use --etcd-password-file")
	}
	urls, in := o.Etcd.Endpoints, "etcd-endpoints"
	if o.Embedded.On {
		urls, in = []string{o.Embedded.Listen}, "etcd-listen"
	}
	for _, name := range []string{"etcd-cafile", "etcd-certfile"} {
		if g.has(name) && !encrypted(urls) {
			o.Warnings = append(o.Warnings, g.from(name)+" has no effect with http; use https in "+g.from(in))
		}
	}
	for _, name := range []string{"healthz-ip", "pprof", "peer-metrics"} {
		if g.has(name) && o.Health.Port == 0 {
			o.Warnings = append(o.Warnings, g.from(name)+" has no effect without --healthz-port")
		}
	}
	masquerades := o.Filtering.Masquerades()
	for _, name := range []string{"no-masq-cidrs", "no-masq-cidrs-file"} {
		if g.has(name) && !masquerades {
			o.Warnings = append(o.Warnings, g.from(name)+" has no effect without --ip-masq")
		}
	}
	if masquerades && o.Filtering.Filter == FilterNone {
		o.Warnings = append(o.Warnings, g.from("ip-masq")+" has no effect on the firewall with "+g.from("filter")+"=none; the env file still says that tulle masquerades")
	}
}
