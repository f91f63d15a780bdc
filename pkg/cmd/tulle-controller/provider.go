package main

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/controller/route"
	"github.com/tulle-net/tulle/pkg/flags"
)

// provider is a cloud of --cloud-provider.
type provider struct {
	// name is the value of --cloud-provider, and aliases are other values that mean it.
	name    string
	aliases []string
	// page documents its settings.
	page string
	// lacks names the controllers that do not run on this cloud.
	lacks []string
	// zoneID is the cloud's own label for the ID of a zone, or "".
	zoneID string
	// layer is what the cloud's own labels for network nodes begin with. The number of the
	// layer follows.
	layer string
	// forwarding is how the cloud calls what lets an instance forward packets.
	forwarding cloud.Forwarding
	// forgets is set if the cloud does not show an instance after its end.
	forgets bool
	// inFlight is how many changes of routes may be in flight; 0 is the usual number.
	inFlight int
	// flags returns the flags that only this cloud has; nil is none.
	flags func(s *settings) []flags.Flag
	// read reads the file of --cloud-config, if there is one, and checks what the cloud
	// needs. It sets the warnings of the settings. It makes no request.
	read func(s *settings, g *flags.Given) error
	// connect returns the client. It makes no request to the cloud's API.
	connect func(s *settings) (cloudClient, error)
	// secrets returns files that may hold keys, each with the setting that names it; nil
	// is none.
	secrets func(s *settings) [][2]string
}

// cloudClient is what the controllers need of every cloud. A client that also is a
// service.Cloud makes load balancers.
type cloudClient interface {
	route.Cloud
	Named(ctx context.Context, names []string) (map[string]cloud.Instance, error)
	Addressed(ctx context.Context, addresses []string) (map[string]cloud.Instance, error)
	Calls() map[cloud.Call]int
}

// providers returns the clouds, in the order of the help.
func providers() []provider { return []provider{onAWS(), onAzure(), onGoogle()} }

// providerNames returns the values of --cloud-provider.
func providerNames() (names []string) {
	for _, p := range providers() {
		names = append(names, p.name)
	}
	return names
}

// providerOf returns the cloud of a name or an alias.
func providerOf(name string) (provider, bool) {
	all := providers()
	i := slices.IndexFunc(all, func(p provider) bool { return p.name == name || slices.Contains(p.aliases, name) })
	if i < 0 {
		return provider{}, false
	}
	return all[i], true
}

// provider returns the cloud of --cloud-provider, or the zero value.
func (s *settings) provider() provider {
	p, _ := providerOf(s.cloud.provider)
	return p
}

// chooseProvider is how to name a cloud.
func chooseProvider() string { return "--cloud-provider=" + strings.Join(providerNames(), " or ") }

// badConfig explains an error of the file of --cloud-config.
func (s *settings) badConfig(g *flags.Given, err error) error {
	e := &flags.Error{Flag: g.From("cloud-config"), Value: s.cloud.file, Why: err.Error(), Fix: s.provider().page + " has the settings"}
	if failed, is := errors.AsType[*fs.PathError](err); is {
		e.Why, e.Fix = failed.Err.Error(), "name a file that this program may read"
	}
	return e
}

// shareFlag returns the flag of the part of a cloud's request rates to use, in percent.
func shareFlag(name, group, about string, to *int) flags.Flag {
	return flags.Flag{Name: name, Group: group, Value: "PERCENT", Default: "50", About: about, Set: flags.To(to, flags.Whole(1, 1000))}
}
