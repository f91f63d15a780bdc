package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/cloud/aws"
	"github.com/tulle-net/tulle/pkg/flags"
)

// cloudSettings are about the cloud that the Nodes are in.
type cloudSettings struct {
	provider string   // its name; "" is none
	file     string   // of --cloud-config
	cluster  string   // the cluster's name
	warnings []string // about the file
}

// cloudFlags are the flags of the cloud: those of all clouds, and those of each.
func (s *settings) cloudFlags() []flags.Flag {
	all := []flags.Flag{
		{Name: "cloud-provider", Group: ofCloud, Value: "NAME",
			About:   "cloud that the Nodes are in; turns on its controllers",
			Choices: providerNames(),
			Set:     flags.To(&s.cloud.provider, readProvider)},
		{Name: "cloud-config", Group: ofCloud, Value: "FILE",
			About: "file with settings, in the format of the cloud's own controller",
			Set:   flags.To(&s.cloud.file, flags.File)},
		{Name: "cluster-name", Group: ofCloud, Value: "NAME",
			About: "cluster's name, which marks what is ours in the cloud",
			Set:   flags.To(&s.cloud.cluster, readCluster)},
	}
	for _, p := range providers() {
		if p.flags != nil {
			all = append(all, p.flags(s)...)
		}
	}
	return all
}

// checkCloud reads the cloud's settings, and rejects those without effect.
func (s *settings) checkCloud(g *flags.Given) error {
	if s.cloud.provider == "" {
		for _, f := range s.table() {
			if f.Group == ofCloud && g.Has(f.Name) {
				return &flags.Error{Flag: g.From(f.Name), Why: "has no effect without --cloud-provider", Fix: "add " + chooseProvider()}
			}
		}
		return nil
	}
	for _, p := range providers() {
		if p.name == s.cloud.provider || p.flags == nil {
			continue
		}
		for _, f := range p.flags(s) {
			if g.Has(f.Name) {
				return &flags.Error{Flag: g.From(f.Name), Why: "has no effect with --cloud-provider=" + s.cloud.provider, Fix: "leave it out"}
			}
		}
	}
	return s.provider().read(s, g)
}

// connectCloud sets the client of the cloud.
func (p *process) connectCloud() (err error) {
	s := &p.settings
	if p.cloud, err = s.provider().connect(s); err != nil {
		return fmt.Errorf("--cloud-provider=%s: %w", s.cloud.provider, err)
	}
	return nil
}

// needsCloud returns why a controller of a cloud has no work without one.
func (s *settings) needsCloud() *flags.Error {
	if s.cloud.provider == "" {
		return &flags.Error{Flag: "cloud-provider", Why: "missing, and the controllers of a cloud need it", Fix: "use " + chooseProvider()}
	}
	return nil
}

// lacking returns why a controller has no work on the cloud of --cloud-provider.
func (s *settings) lacking(p part) *flags.Error {
	if slices.Contains(s.provider().lacks, p.name) {
		return &flags.Error{Flag: "cloud-provider", Value: s.cloud.provider, Why: p.name + " does not run on this cloud", Fix: "leave it out of --controllers; " + s.provider().page + " names the controllers that do"}
	}
	return nil
}

// readProvider returns the name of a cloud. An alias means the name.
func readProvider(value string) (string, error) {
	if p, ok := providerOf(value); ok {
		return p.name, nil
	}
	return "", flags.Refuse(value, "unknown cloud", flags.DidYouMean(flags.Nearest(value, providerNames()), "use "+strings.Join(providerNames(), " or ")))
}

func readCluster(value string) (string, error) {
	if err := aws.CheckCluster(value); err != nil {
		return "", flags.Refuse(value, "not the name of a cluster", "use the NAME of the tags kubernetes.io/cluster/NAME on AWS, and what the names of routes begin with on Google")
	}
	return value, nil
}
