package azure

import (
	"strings"
	"testing"
)

const subscription = `"subscriptionId":"0b1f6471-1bf0-4dda-aec3-cb9272f09590","resourceGroup":"nodes"`

func TestConfig(t *testing.T) {
	c, warnings, err := ParseConfig([]byte(`{` + subscription + `,"tenantId":"t","aadClientId":"i","aadClientSecret":"hush","routeTableName":"rt","routeTableResourceGroup":"Net","location":"westeurope","vmType":"vmss","useManagedIdentityExtension":false,"cloudProviderRateLimit":true,"routeUpdateIntervalInSeconds":5,"loadBalancerSku":"standard"}`))
	if err != nil || c.Table != "rt" || c.TableGroup != "Net" || c.Group != "nodes" || c.TableSubscription != c.Subscription || c.Secret != "hush" || !c.HasSecrets() {
		t.Errorf("%+v, %v", c, err)
	}
	if text := strings.Join(warnings, "\n"); len(warnings) != 2 || !strings.Contains(text, "cloudProviderRateLimit has no effect: half of") || !strings.Contains(text, "routeUpdateIntervalInSeconds has no effect") {
		t.Errorf("%q", warnings)
	}
	yaml, _, err := ParseConfig([]byte("subscriptionId: 0b1f6471-1bf0-4dda-aec3-cb9272f09590\nresourceGroup: nodes\naadClientId: msi\naadClientSecret: msi\n"))
	if err != nil || !yaml.Managed || yaml.HasSecrets() {
		t.Errorf("%+v, %v", yaml, err)
	}
	for text, part := range map[string]string{
		`{`:  "neither JSON nor YAML",
		`[]`: "neither JSON nor YAML",
		`{}`: "is not",
		`{` + subscription + `,"cloud":"AzureStackCloud"}`:                                                       "not supported; use AzurePublicCloud",
		`{` + subscription + `,"CLOUD":"AzurePublicCloud","cloud":"AzurePublicCloud"}`:                           "is there twice",
		`{` + subscription + `,"aadClientSecret":"hush"}`:                                                        "tenantId: missing",
		`{` + subscription + `,"aadClientSecret":"hush","aadClientCertPath":"x"}`:                                "keep one",
		`{` + subscription + `,"aadClientSecret":["hush"]}`:                                                      "not a text",
		`{` + subscription + `,"useManagedIdentityExtension":"hush"}`:                                            "neither true nor false",
		`{` + subscription + `,"useManagedIdentityExtension":true,"useFederatedWorkloadIdentityExtension":true}`: "both are true",
		`{` + subscription + `,"routeTableName":"a/b"}`:                                                          "is not a route table",
		`{` + subscription + `,"location":"West Europe"}`:                                                        "is not a region",
		`{` + subscription + `,"resourceManagerEndpoint":"http://management.example"}`:                           "not a URL of https",
		`{` + subscription + `,"resourceManagerEndpoint":"https://me:hush@management.example"}`:                  "not a URL of https",
		`{` + subscription + `,"networkResourceTenantID":"x"}`:                                                   "another tenant",
		`{"subscriptionId":"x","resourceGroup":"nodes"}`:                                                         "is not the ID of a subscription",
		strings.Repeat(" ", 1<<20+1):                                                                             "larger than 1 MiB",
	} {
		_, _, err := ParseConfig([]byte(text))
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%.90s: %v", text, err)
		}
		if err != nil && strings.Contains(err.Error(), "me:hush") {
			t.Errorf("%v repeats a secret", err)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add(`{` + subscription + `,"routeTableName":"rt"}`)
	f.Add("subscriptionId: 0b1f6471-1bf0-4dda-aec3-cb9272f09590\nresourceGroup: nodes\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, _, err := ParseConfig([]byte(text))
		if err == nil && (!subscriptionID.MatchString(c.Subscription) || !groupName.MatchString(c.TableGroup) || c.Table != "" && !resourceName.MatchString(c.Table)) {
			t.Errorf("%+v", c)
		}
	})
}

// Every kind of identity makes a client, and none asks anything before it is needed.
func TestIdentities(t *testing.T) {
	for name, text := range map[string]string{
		"chain":       `{` + subscription + `}`,
		"secret":      `{` + subscription + `,"tenantId":"t-1","aadClientId":"i","aadClientSecret":"hush"}`,
		"machine":     `{` + subscription + `,"useManagedIdentityExtension":true}`,
		"client ID":   `{` + subscription + `,"useManagedIdentityExtension":true,"userAssignedIdentityID":"0b1f6471-1bf0-4dda-aec3-cb9272f09590"}`,
		"resource ID": `{` + subscription + `,"useManagedIdentityExtension":true,"userAssignedIdentityID":"/subscriptions/s/resourceGroups/g/providers/Microsoft.ManagedIdentity/userAssignedIdentities/i"}`,
		"pod":         `{` + subscription + `,"useFederatedWorkloadIdentityExtension":true,"tenantId":"t-1","aadClientId":"i","aadFederatedTokenFile":"/x"}`,
		"government":  `{` + subscription + `,"cloud":"AzureUSGovernmentCloud","useManagedIdentityExtension":true}`,
	} {
		c, _, err := ParseConfig([]byte(text))
		if err == nil {
			_, err = New(Options{Config: c, Agent: "tulle"})
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	c, _, _ := ParseConfig([]byte(`{` + subscription + `,"tenantId":"t","aadClientId":"i","aadClientCertPath":"/missing"}`))
	if _, err := New(Options{Config: c}); err == nil || !strings.Contains(err.Error(), "aadClientCertPath") {
		t.Errorf("%v", err)
	}
}
