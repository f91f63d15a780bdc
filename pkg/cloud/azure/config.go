package azure

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Config has the settings of the cloud config file of Azure's own controller that have an
// effect here.
type Config struct {
	// Cloud is the cloud's name, such as AzurePublicCloud.
	Cloud string
	// Subscription has the machines, and Group is their resource group.
	Subscription, Group string
	// Location is the region; it is only needed to read the quota of routes.
	Location string
	// Table is the route table. TableSubscription and TableGroup are where it is.
	Table, TableSubscription, TableGroup string
	// Endpoint is the URL of Azure Resource Manager, if it is not the cloud's.
	Endpoint string

	Tenant, ClientID string
	// Secret, or Certificate with its Password, or TokenFile proves that the program is the
	// client.
	Secret, Certificate, Password, TokenFile string
	// Managed is set if the identity is one of the machine's. Identity is its client ID or
	// resource ID; "" is the machine's own.
	Managed  bool
	Identity string
	// Workload is set if the identity is that of the pod.
	Workload bool
}

// HasSecrets reports whether the file itself has a secret.
func (c Config) HasSecrets() bool { return c.Secret != "" || c.Password != "" }

// ReadConfig reads a cloud config file. It returns warnings about what has no effect here.
func ReadConfig(path string) (Config, []string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Config{}, nil, err
	}
	return ParseConfig(text)
}

// silent are settings without effect here that need no warning: this program behaves so
// without them, or they are about what it does not do.
var silent = map[string]bool{
	"vmtype": true, "vnetname": true, "vnetresourcegroup": true, "subnetname": true, "useinstancemetadata": true, "enablevmssflexnodes": true, "useragent": true,
	"disableavailabilitysetnodes": true, "maximumloadbalancerrulecount": true, "putvmssvmbatchsize": true, "loadbalancersku": true, "loadbalancername": true,
	"securitygroupname": true, "securitygroupresourcegroup": true, "primaryavailabilitysetname": true, "primaryscalesetname": true, "excludemasterfromstandardlb": true,
	"enablemigratetoipbasedbackendpoolapi": true, "identitysystem": true,
}

// ParseConfig returns what the text of a cloud config says, in JSON or YAML.
func ParseConfig(text []byte) (c Config, warnings []string, err error) {
	if len(text) > 1<<20 {
		return c, nil, errors.New("larger than 1 MiB; name the file with the settings of Azure's own controller")
	}
	var raw map[string]json.RawMessage
	if err := yaml.Unmarshal(text, &raw); err != nil {
		return c, nil, errors.New("neither JSON nor YAML; use the file of Azure's own controller, azure.json") // the text may hold a secret
	}
	seen := make(map[string]string)
	for _, name := range sortedKeys(raw) {
		low := strings.ToLower(name)
		if other, twice := seen[low]; twice {
			return c, nil, fmt.Errorf("%.60q is there twice, as %.60q, too; keep one of them", name, other)
		}
		seen[low] = name
		warning, err := c.set(low, raw[name])
		if err != nil {
			return c, nil, fmt.Errorf("%s: %w", name, err)
		}
		if warning != "" {
			warnings = append(warnings, fmt.Sprintf("%.60s %s", name, warning))
		}
	}
	return c, warnings, c.finish()
}

func sortedKeys(raw map[string]json.RawMessage) (all []string) {
	for name := range raw {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// texts returns where the settings go that are texts.
func (c *Config) texts() map[string]*string {
	return map[string]*string{
		"cloud": &c.Cloud, "subscriptionid": &c.Subscription, "resourcegroup": &c.Group, "location": &c.Location,
		"routetablename": &c.Table, "routetableresourcegroup": &c.TableGroup, "networkresourcesubscriptionid": &c.TableSubscription,
		"resourcemanagerendpoint": &c.Endpoint, "tenantid": &c.Tenant, "aadclientid": &c.ClientID, "aadclientsecret": &c.Secret,
		"aadclientcertpath": &c.Certificate, "aadclientcertpassword": &c.Password, "aadfederatedtokenfile": &c.TokenFile, "userassignedidentityid": &c.Identity,
	}
}

// set takes one setting. It returns a warning about one without effect.
func (c *Config) set(name string, value json.RawMessage) (warning string, err error) {
	if string(value) == "null" {
		return "", nil
	}
	if to := c.texts()[name]; to != nil {
		var text string
		if json.Unmarshal(value, &text) != nil {
			return "", errors.New("not a text; write it in quotes") // its value may be a secret
		}
		*to = strings.TrimSpace(text)
		return "", nil
	}
	if to := map[string]*bool{"usemanagedidentityextension": &c.Managed, "usefederatedworkloadidentityextension": &c.Workload}[name]; to != nil {
		if json.Unmarshal(value, to) != nil {
			return "", fmt.Errorf("%.40q is neither true nor false; use one of them", value)
		}
		return "", nil
	}
	if name == "networkresourcetenantid" || name == "auxiliarytokenprovider" {
		return "", errors.New("tables in another tenant are not supported; run tulle-controller with an identity of the table's tenant, and leave this out")
	}
	empty := slices.Contains([]string{`""`, "false", "0", "{}", "[]"}, string(value))
	switch {
	case empty || silent[name]:
		return "", nil
	case strings.Contains(name, "loadbalancer") || strings.Contains(name, "backendpool") || strings.Contains(name, "outboundsnat"):
		return "is about load balancers, which this program does not make on Azure; it has no effect", nil
	case strings.HasPrefix(name, "cloudprovider"):
		return "has no effect: half of Azure's published request rates are used, and fewer when Azure says so", nil
	}
	return "has no effect", nil
}

// finish checks the settings, and sets what follows from several.
func (c *Config) finish() error {
	if c.Cloud == "" {
		c.Cloud = "AzurePublicCloud"
	}
	if c.Subscription == "" {
		c.Subscription = os.Getenv("AZURE_SUBSCRIPTION_ID")
	}
	if c.TableSubscription == "" {
		c.TableSubscription = c.Subscription
	}
	if c.TableGroup == "" {
		c.TableGroup = c.Group
	}
	if c.ClientID == "msi" && c.Secret == "msi" {
		c.Managed, c.ClientID, c.Secret = true, "", ""
	}
	if _, known := clouds[strings.ToLower(c.Cloud)]; !known {
		return fmt.Errorf("cloud: %.40q is not supported; use AzurePublicCloud, AzureUSGovernmentCloud or AzureChinaCloud", c.Cloud)
	}
	for name, value := range map[string]string{"subscriptionId": c.Subscription, "networkResourceSubscriptionID": c.TableSubscription} {
		if !subscriptionID.MatchString(value) {
			return fmt.Errorf("%s: %.60q is not the ID of a subscription; use one like 01234567-89ab-cdef-0123-456789abcdef", name, value)
		}
	}
	for name, value := range map[string]string{"resourceGroup": c.Group, "routeTableResourceGroup": c.TableGroup} {
		if !groupName.MatchString(value) {
			return fmt.Errorf("%s: %.100q is not a resource group; use the name of the one with the machines or the table", name, value)
		}
	}
	if c.Table != "" && !resourceName.MatchString(c.Table) {
		return fmt.Errorf("routeTableName: %.100q is not a route table; use its name, without its group", c.Table)
	}
	if c.Location != "" && !hostName.MatchString(strings.ToLower(c.Location)) {
		return fmt.Errorf("location: %.60q is not a region; use one like westeurope", c.Location)
	}
	return c.checkIdentity()
}

func (c *Config) checkIdentity() error {
	if c.Endpoint != "" {
		u, err := url.Parse(c.Endpoint)
		if err != nil || u.User != nil || u.Host == "" || u.Scheme != "https" && !isLocal(u) {
			return errors.New("resourceManagerEndpoint: not a URL of https without a user; use one like https://management.azure.com")
		}
		c.Endpoint = strings.TrimRight(c.Endpoint, "/")
	}
	needs := func(name, value, by string) error {
		if value == "" {
			return fmt.Errorf("%s: missing, and %s needs it", name, by)
		}
		return nil
	}
	switch {
	case c.Managed && c.Workload:
		return errors.New("useManagedIdentityExtension and useFederatedWorkloadIdentityExtension: both are true; keep one of them")
	case c.Managed || c.Workload:
		return nil
	case c.Secret != "" && c.Certificate != "":
		return errors.New("aadClientSecret and aadClientCertPath: both are set; keep one of them")
	case c.Secret != "":
		return errors.Join(needs("tenantId", c.Tenant, "aadClientSecret"), needs("aadClientId", c.ClientID, "aadClientSecret"))
	case c.Certificate != "":
		return errors.Join(needs("tenantId", c.Tenant, "aadClientCertPath"), needs("aadClientId", c.ClientID, "aadClientCertPath"))
	}
	return nil
}

// isLocal reports whether a URL is of this host, where no token needs encryption.
func isLocal(u *url.URL) bool {
	a, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "http" && err == nil && a.IsLoopback()
}
