package main

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/tulle-net/tulle/pkg/cloud/gce"
	"github.com/tulle-net/tulle/pkg/controller/cloudipam"
	"github.com/tulle-net/tulle/pkg/flags"
	"github.com/tulle-net/tulle/subnet"
)

// googleSettings are about instances in Compute Engine.
type googleSettings struct {
	project, secondary, endpoint string
}

// cloudModes are the allocators that need a cloud.
var cloudModes = map[string]cloudipam.Mode{
	cloudAllocator: cloudipam.CloudAllocator, fromCloudAllocator: cloudipam.FromCloud, fromClusterAllocator: cloudipam.FromCluster,
}

// checkGoogle rejects flags that the allocator cannot use.
func (s *settings) checkGoogle(g *flags.Given) error {
	if _, uses := cloudModes[s.allocator]; !uses {
		for _, f := range s.table() {
			if f.Group == ofGoogle && g.Has(f.Name) {
				return &flags.Error{Flag: g.From(f.Name), Why: "has no effect with --cidr-allocator-type=" + s.allocator, Fix: "leave it out, or use --cidr-allocator-type=" + cloudAllocator}
			}
		}
		return nil
	}
	if s.cloud.provider != "" {
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
	var err error
	// The tokens outlive every request.
	p.google, err = gce.New(context.Background(), gce.Options{
		Project: s.google.project, Endpoint: cmp.Or(s.google.endpoint, gce.Endpoint), Agent: "tulle-controller/" + version,
	})
	if err != nil {
		return fmt.Errorf("--cidr-allocator-type=%s: %w; --gce-project names the project", s.allocator, err)
	}
	o.Cloud = p.google
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
