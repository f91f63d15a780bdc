package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/cloud/gce"
	"github.com/tulle-net/tulle/pkg/controller/cloudipam"
	"github.com/tulle-net/tulle/pkg/controller/service"
	"github.com/tulle-net/tulle/pkg/flags"
	"github.com/tulle-net/tulle/subnet"
)

// onGoogle is Google Cloud, by the name that Kubernetes has for it.
func onGoogle() provider {
	return provider{
		name: "gce", aliases: []string{"gcp", "google"}, page: "Documentation/cloud-google.md", lacks: []string{service.Name},
		forgets: true, forwarding: gce.Forwarding, read: (*settings).readGoogle, connect: (*settings).connectGoogle,
	}
}

// googleSettings are about instances in Compute Engine.
type googleSettings struct {
	project, secondary, endpoint string
	share                        int // of the request rates, in percent
	routes                       int // the limit of the network's static routes
	config                       gce.Config
}

// googleNames are what texts about Google's settings call our flags.
var googleNames = gce.Names{Secondary: "--gce-secondary-range", RouteLimit: "--gce-route-limit"}

// readGoogle reads the cloud config, and checks the cluster's name.
func (s *settings) readGoogle(g *flags.Given) (err error) {
	c := &s.cloud
	if s.google.config, c.warnings, err = gce.ReadConfig(c.file, googleNames); err != nil {
		return s.badConfig(g, err)
	}
	// Flags override the file.
	if g.Has("gce-project") {
		s.google.config.Project = s.google.project
	}
	if g.Has("gce-api-endpoint") {
		s.google.config.Endpoint = s.google.endpoint
	}
	if c.cluster == "" {
		return &flags.Error{Flag: g.From("cloud-provider"), Value: c.provider, Why: "needs the cluster's name, which the names of its routes begin with", Fix: "add --cluster-name=NAME; that of Google's own controller is kubernetes, unless it was set"}
	}
	if err := gce.CheckCluster(c.cluster); err != nil {
		return &flags.Error{Flag: g.From("cluster-name"), Value: c.cluster, Why: "not the beginning of a route's name", Fix: "use lower case letters, digits and dashes, and a letter first"}
	}
	return nil
}

// connectGoogle returns the client of Google.
func (s *settings) connectGoogle() (cloudClient, error) {
	client, err := s.googleClient(gce.Options{Config: s.google.config, Cluster: s.cloud.cluster, RouteLimit: s.google.routes})
	if err != nil {
		return nil, fmt.Errorf("%w; project-id of the cloud config or --gce-project names the project", err)
	}
	klog.InfoS("Using a cloud", "provider", s.cloud.provider, "project", client.Project(), "cluster", s.cloud.cluster)
	return client, nil
}

// aliasOptions returns the options of the client of node IPAM. With --cloud-provider, the
// config has what the flags say.
func (s *settings) aliasOptions() gce.Options {
	if s.cloud.provider == onGoogle().name {
		return gce.Options{Config: s.google.config}
	}
	return gce.Options{Project: s.google.project, Endpoint: s.google.endpoint}
}

// googleClient returns a client.
func (s *settings) googleClient(o gce.Options) (*gce.Client, error) {
	o.Agent, o.Share, o.Names = "tulle-controller/"+version, float64(s.google.share)/100, googleNames
	return gce.New(context.Background(), o) // the tokens outlive every request
}

// onlyAliases are the flags that only node IPAM by alias ranges uses.
var onlyAliases = []string{"gce-secondary-range"}

// cloudModes are the allocators that need a cloud.
var cloudModes = map[string]cloudipam.Mode{
	cloudAllocator: cloudipam.CloudAllocator, fromCloudAllocator: cloudipam.FromCloud, fromClusterAllocator: cloudipam.FromCluster,
}

// hasAliases reports whether podCIDRs are alias ranges.
func (s *settings) hasAliases() bool {
	_, uses := cloudModes[s.allocator]
	return uses
}

// checkGoogle rejects flags that the allocator cannot use.
func (s *settings) checkGoogle(g *flags.Given) error {
	if !s.hasAliases() {
		for _, f := range s.table() {
			uses := s.cloud.provider == onGoogle().name && !slices.Contains(onlyAliases, f.Name)
			if f.Group == ofGoogle && g.Has(f.Name) && !uses {
				return &flags.Error{Flag: g.From(f.Name), Why: "has no effect with --cidr-allocator-type=" + s.allocator, Fix: "leave it out, or use --cidr-allocator-type=" + cloudAllocator}
			}
		}
		return nil
	}
	if s.cloud.provider != "" && s.cloud.provider != onGoogle().name {
		return &flags.Error{Flag: g.From("cidr-allocator-type"), Value: s.allocator, Why: "is Google's, and --cloud-provider is " + s.cloud.provider, Fix: "use " + rangeAllocator + ", or leave out --cloud-provider"}
	}
	if s.allocator == fromClusterAllocator && (len(s.cluster) > 1 || subnet.FamilyOf(s.cluster[0].Addr()) != subnet.IPv4) {
		return &flags.Error{Flag: g.From("cluster-cidr"), Value: g.Last("cluster-cidr"), Why: "Google's alias ranges are IPv4", Fix: "use one IPv4 range, or --cidr-allocator-type=" + cloudAllocator}
	}
	return nil
}

// families returns the families of podCIDRs that a cloud gives, in the order of
// --cluster-cidr, or else in that of the ranges of Services.
func (s *settings) families() (all []subnet.Family) {
	ranges := s.cluster
	if len(ranges) == 0 {
		ranges = slices.Concat(s.services, s.secondServices)
	}
	for _, r := range ranges {
		all = append(all, subnet.FamilyOf(r.Addr()))
	}
	if all == nil {
		all = []subnet.Family{subnet.IPv4}
	}
	return all
}

// addCloudIPAM adds node IPAM by a cloud.
func (p *process) addCloudIPAM(mode cloudipam.Mode) error {
	s := p.settings
	o := cloudipam.Options{
		Client: p.client, Mode: mode, Families: s.families(), Services: slices.Concat(s.services, s.secondServices),
		Rest: s.rest, Secondary: s.google.secondary, Event: p.engine.Event,
	}
	if len(s.pools) > 0 {
		o.Pool = &s.pools[0]
	}
	client, shared := p.cloud.(*gce.Client)
	if !shared {
		var err error
		client, err = s.googleClient(s.aliasOptions())
		if err != nil {
			return fmt.Errorf("--cidr-allocator-type=%s: %w; --gce-project names the project", s.allocator, err)
		}
		p.google = client
	}
	o.Cloud = client
	var err error
	p.ipam, err = cloudipam.New(p.engine, o)
	return err
}

func readProject(value string) (string, error) {
	if err := gce.CheckProject(value); err != nil {
		return "", flags.Refuse(value, "not the ID of a project", "use one like my-project-1")
	}
	return value, nil
}

// rangeName is the name of a range, as the Compute Engine API allows it.
var rangeName = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

func readSecondary(value string) (string, error) {
	if !rangeName.MatchString(value) {
		return "", flags.Refuse(value, "not the name of a secondary range", "use the name that the subnetwork gives it, like pods")
	}
	return value, nil
}
