package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/cloud/aws"
	"github.com/tulle-net/tulle/pkg/flags"
)

// onAWS is Amazon Web Services.
func onAWS() provider {
	return provider{
		name: "aws", page: "Documentation/cloud-aws.md", zoneID: "topology.k8s.aws/zone-id", layer: "topology.k8s.aws/network-node-layer-", forwarding: aws.Forwarding,
		flags: (*settings).awsFlags, read: (*settings).readAWS, connect: (*settings).connectAWS, secrets: (*settings).awsSecrets,
	}
}

// awsSettings are those that only AWS has.
type awsSettings struct {
	share  int // of the request rates, in percent
	config aws.Config
}

// awsFlags are the flags of AWS.
func (s *settings) awsFlags() []flags.Flag {
	return []flags.Flag{shareFlag("aws-api-share", ofCloud, "percent of AWS's published request rates to use", &s.aws.share)}
}

// readAWS reads the cloud config, and checks the cluster's name.
func (s *settings) readAWS(g *flags.Given) (err error) {
	c := &s.cloud
	s.aws.config, c.warnings, err = aws.ReadConfig(c.file)
	switch {
	case err != nil:
		return s.badConfig(g, err)
	case s.aws.config.Cluster == "" && c.cluster == "":
		return &flags.Error{Flag: g.From("cloud-provider"), Value: c.provider, Why: "needs the cluster's name", Fix: "add --cluster-name=NAME, of the tags kubernetes.io/cluster/NAME"}
	case s.aws.config.Cluster != "" && c.cluster != "" && s.aws.config.Cluster != c.cluster:
		c.warnings = append(c.warnings, fmt.Sprintf("it names the cluster %s, which overrides --cluster-name=%s", s.aws.config.Cluster, c.cluster))
	}
	return nil
}

// connectAWS returns the client of AWS. If no region is given, it requests the region.
func (s *settings) connectAWS() (cloudClient, error) {
	client, err := aws.New(context.Background(), aws.Options{
		Config: s.aws.config, Cluster: s.cloud.cluster, Share: float64(s.aws.share) / 100, Agent: "tulle-controller/" + version,
	})
	if err != nil {
		return nil, err
	}
	klog.InfoS("Using a cloud", "provider", s.cloud.provider, "region", client.Region(), "cluster", client.Cluster())
	return client, nil
}

// awsSecrets returns the files of AWS's SDK that may hold keys, with the variables that
// name them. Without the variables they are in the home folder.
func (*settings) awsSecrets() (all [][2]string) {
	for _, file := range [][2]string{{"AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"}, {"AWS_CONFIG_FILE", ".aws/config"}} {
		path := os.Getenv(file[0])
		if home, err := os.UserHomeDir(); path == "" && err == nil {
			path = filepath.Join(home, file[1])
		}
		all = append(all, [2]string{file[0], path})
	}
	return all
}
