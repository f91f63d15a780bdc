package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/aws"
	"github.com/tulle-net/tulle/pkg/flags"
)

// onAWS is Amazon Web Services.
const onAWS = "aws"

// providers are the clouds of --cloud-provider.
func providers() []string { return []string{onAWS} }

// cloudSettings are about the cloud that the Nodes are in.
type cloudSettings struct {
	provider string // "" is none
	file     string // of --cloud-config
	cluster  string // the cluster's name
	share    int    // of the request rates, in percent
	config   aws.Config
	warnings []string // about the file
}

// cloudClient is what the controllers need of a cloud.
type cloudClient interface {
	Instances(ctx context.Context, providerIDs []string) (map[string]cloud.Instance, error)
	Named(ctx context.Context, names []string) (map[string]cloud.Instance, error)
	Addressed(ctx context.Context, addresses []string) (map[string]cloud.Instance, error)
	Tables(ctx context.Context) ([]cloud.Table, error)
	ChangeRoutes(ctx context.Context, changes []cloud.RouteChange) []error
	Forward(ctx context.Context, i cloud.Instance) error
	Subnets(ctx context.Context) ([]cloud.Subnet, error)
	Balancing(ctx context.Context) (cloud.Balancing, error)
	Details(ctx context.Context, ids []string) (cloud.Balancing, error)
	SecurityGroups(ctx context.Context, ids []string) ([]cloud.SecurityGroup, error)
	ChangeBalancing(ctx context.Context, c cloud.BalancerChange) (cloud.Balancing, error)
	BalancerQuota(ctx context.Context) (cloud.BalancerQuota, error)
	Calls() map[cloud.Call]int
}

// cloudFlags are the flags of the cloud.
func (s *settings) cloudFlags() []flags.Flag {
	return []flags.Flag{
		{Name: "cloud-provider", Group: ofCloud, Value: "NAME",
			About:   "cloud that the Nodes are in; turns on its controllers",
			Choices: providers(),
			Set:     flags.To(&s.cloud.provider, readProvider)},
		{Name: "cloud-config", Group: ofCloud, Value: "FILE",
			About: "file with settings, in the format of the cloud's own controller",
			Set:   flags.To(&s.cloud.file, flags.File)},
		{Name: "cluster-name", Group: ofCloud, Value: "NAME",
			About: "name in the tags kubernetes.io/cluster/NAME",
			Set:   flags.To(&s.cloud.cluster, readCluster)},
		{Name: "aws-api-share", Group: ofCloud, Value: "PERCENT", Default: "50",
			About: "percent of AWS's published request rates to use",
			Set:   flags.To(&s.cloud.share, flags.Whole(1, 1000))},
	}
}

// checkCloud reads the cloud's settings, and rejects those without effect.
func (s *settings) checkCloud(g *flags.Given) (err error) {
	if s.cloud.provider == "" {
		for _, f := range s.table() {
			if f.Group == ofCloud && g.Has(f.Name) {
				return &flags.Error{Flag: g.From(f.Name), Why: "has no effect without --cloud-provider", Fix: "add --cloud-provider=" + onAWS}
			}
		}
		return nil
	}
	s.cloud.config, s.cloud.warnings, err = aws.ReadConfig(s.cloud.file)
	if err != nil {
		e := &flags.Error{Flag: g.From("cloud-config"), Value: s.cloud.file, Why: err.Error(), Fix: "Documentation/cloud-aws.md has the settings"}
		if failed, is := errors.AsType[*fs.PathError](err); is {
			e.Why, e.Fix = failed.Err.Error(), "name a file that this program may read"
		}
		return e
	}
	c := &s.cloud
	switch {
	case c.config.Cluster == "" && c.cluster == "":
		return &flags.Error{Flag: g.From("cloud-provider"), Value: c.provider, Why: "needs the cluster's name", Fix: "add --cluster-name=NAME, of the tags kubernetes.io/cluster/NAME"}
	case c.config.Cluster != "" && c.cluster != "" && c.config.Cluster != c.cluster:
		c.warnings = append(c.warnings, fmt.Sprintf("it names the cluster %s, which overrides --cluster-name=%s", c.config.Cluster, c.cluster))
	}
	return nil
}

// connectCloud sets the client of the cloud. If no region is given, it requests the region.
// It makes no other request.
func (p *process) connectCloud() error {
	s := p.settings.cloud
	client, err := aws.New(context.Background(), aws.Options{
		Config: s.config, Cluster: s.cluster, Share: float64(s.share) / 100, Agent: "tulle-controller/" + version,
	})
	if err != nil {
		return fmt.Errorf("--cloud-provider=%s: %w", s.provider, err)
	}
	klog.InfoS("Using a cloud", "provider", s.provider, "region", client.Region(), "cluster", client.Cluster())
	p.cloud = client
	return nil
}

// needsCloud returns why a controller of a cloud has no work without one.
func (s *settings) needsCloud() *flags.Error {
	if s.cloud.provider == "" {
		return &flags.Error{Flag: "cloud-provider", Why: "missing, and the controllers of a cloud need it", Fix: "use --cloud-provider=" + onAWS}
	}
	return nil
}

func readProvider(value string) (string, error) {
	switch {
	case slices.Contains(providers(), value):
		return value, nil
	case value == "gce" || value == "google":
		return "", flags.Refuse(value, "not a provider here", "use --cidr-allocator-type="+cloudAllocator+" for Google's alias ranges, without --cloud-provider")
	}
	return "", flags.Refuse(value, "unknown cloud", flags.DidYouMean(flags.Nearest(value, providers()), "use "+strings.Join(providers(), " or ")))
}

func readCluster(value string) (string, error) {
	if err := aws.CheckCluster(value); err != nil {
		return "", flags.Refuse(value, "not the name of a cluster", "use the NAME of the tags kubernetes.io/cluster/NAME")
	}
	return value, nil
}
