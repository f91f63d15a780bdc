package main

import (
	"os"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/cloud/azure"
	"github.com/tulle-net/tulle/pkg/controller/service"
	"github.com/tulle-net/tulle/pkg/flags"
)

// onAzure is Microsoft Azure. It shows no machine after its end. One write of the route
// table has any number of changes.
func onAzure() provider {
	return provider{
		name: "azure", page: "Documentation/cloud-azure.md", lacks: []string{service.Name}, forgets: true, inFlight: 1000, forwarding: azure.Forwarding,
		flags: (*settings).azureFlags, read: (*settings).readAzure, connect: (*settings).connectAzure, secrets: (*settings).azureSecrets,
	}
}

// azureSettings are those that only Azure has.
type azureSettings struct {
	share  int // of the request rates, in percent
	config azure.Config
}

// azureFlags are the flags of Azure.
func (s *settings) azureFlags() []flags.Flag {
	return []flags.Flag{shareFlag("azure-api-share", ofCloud, "percent of Azure's published request rates to use", &s.azure.share)}
}

// readAzure reads the cloud config, which Azure needs: it names the subscription.
func (s *settings) readAzure(g *flags.Given) (err error) {
	c := &s.cloud
	if c.file == "" {
		return &flags.Error{Flag: g.From("cloud-provider"), Value: c.provider, Why: "needs a cloud config", Fix: "add --cloud-config=/etc/kubernetes/azure.json"}
	}
	if s.azure.config, c.warnings, err = azure.ReadConfig(c.file); err != nil {
		return s.badConfig(g, err)
	}
	if c.cluster != "" {
		c.warnings = append(c.warnings, "--cluster-name has no effect on Azure")
	}
	if s.azure.config.Table == "" && s.route.on && s.allocate {
		c.warnings = append(c.warnings, "it names no route table; set routeTableName, or use --configure-cloud-routes=false")
	}
	return nil
}

// connectAzure returns the client of Azure.
func (s *settings) connectAzure() (cloudClient, error) {
	client, err := azure.New(azure.Options{Config: s.azure.config, Share: float64(s.azure.share) / 100, Agent: "tulle-controller/" + version})
	if err != nil {
		return nil, err
	}
	klog.InfoS("Using a cloud", "provider", s.cloud.provider, "subscription", s.azure.config.Subscription, "resourceGroup", s.azure.config.Group, "routeTable", s.azure.config.Table)
	return client, nil
}

// azureSecrets returns the files that may hold keys.
func (s *settings) azureSecrets() (all [][2]string) {
	if s.azure.config.HasSecrets() {
		all = append(all, [2]string{"--cloud-config", s.cloud.file})
	}
	all = append(all, [2]string{"aadClientCertPath", s.azure.config.Certificate}, [2]string{"aadFederatedTokenFile", s.azure.config.TokenFile})
	for _, name := range []string{"AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_FEDERATED_TOKEN_FILE"} {
		all = append(all, [2]string{name, os.Getenv(name)})
	}
	return all
}
