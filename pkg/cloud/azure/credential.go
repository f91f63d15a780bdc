package azure

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// clouds are the clouds of --cloud-config, in small letters, with the other names that the
// SDK has had for them.
var clouds = map[string]cloud.Configuration{
	"azurepubliccloud": cloud.AzurePublic, "azurecloud": cloud.AzurePublic, "azurepublic": cloud.AzurePublic,
	"azureusgovernmentcloud": cloud.AzureGovernment, "azureusgovernment": cloud.AzureGovernment, "azuregovernment": cloud.AzureGovernment,
	"azurechinacloud": cloud.AzureChina, "azurechina": cloud.AzureChina,
}

// clientOptions returns the options of the SDK. Its own retries and the registration of
// resource providers are off.
func clientOptions(o Options) (*arm.ClientOptions, error) {
	in := clouds[strings.ToLower(o.Config.Cloud)]
	all := policy.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}, Telemetry: policy.TelemetryOptions{ApplicationID: o.Agent}}
	if o.Config.Endpoint != "" {
		service := in.Services[cloud.ResourceManager]
		service.Endpoint = o.Config.Endpoint
		in.Services = map[cloud.ServiceName]cloud.ServiceConfiguration{cloud.ResourceManager: service}
		if u, err := url.Parse(o.Config.Endpoint); err == nil {
			all.InsecureAllowCredentialWithHTTP = isLocal(u)
		}
	}
	to, err := newGuard(o.Transport, in.Services[cloud.ResourceManager].Endpoint, cmp.Or(o.largest, largestAnswer))
	if err != nil {
		return nil, err
	}
	all.Cloud, all.Transport = in, to
	return &arm.ClientOptions{ClientOptions: all, DisableRPRegistration: true}, nil
}

// credential returns what gets tokens: the identity of the cloud config, or the first of
// the SDK's chain that gives one.
func credential(o Options) (azcore.TokenCredential, error) {
	c := o.Config
	of := policy.ClientOptions{Cloud: clouds[strings.ToLower(c.Cloud)]}
	switch {
	case o.Credential != nil:
		return o.Credential, nil
	case c.Managed:
		to := &azidentity.ManagedIdentityCredentialOptions{ClientOptions: of}
		switch {
		case strings.HasPrefix(c.Identity, "/"):
			to.ID = azidentity.ResourceID(c.Identity)
		case c.Identity != "":
			to.ID = azidentity.ClientID(c.Identity)
		}
		return azidentity.NewManagedIdentityCredential(to)
	case c.Workload:
		return azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{ClientOptions: of, ClientID: c.ClientID, TenantID: c.Tenant, TokenFilePath: c.TokenFile})
	case c.Secret != "":
		return azidentity.NewClientSecretCredential(c.Tenant, c.ClientID, c.Secret, &azidentity.ClientSecretCredentialOptions{ClientOptions: of})
	case c.Certificate != "":
		return certificate(c, of)
	}
	return azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{ClientOptions: of, TenantID: c.Tenant})
}

// certificate returns the identity of a certificate.
func certificate(c Config, of policy.ClientOptions) (azcore.TokenCredential, error) {
	text, err := os.ReadFile(c.Certificate)
	if err != nil {
		return nil, fmt.Errorf("aadClientCertPath: %w; name a file that this program may read", err)
	}
	var password []byte
	if c.Password != "" {
		password = []byte(c.Password)
	}
	chain, key, err := azidentity.ParseCertificates(text, password)
	if err != nil {
		return nil, fmt.Errorf("aadClientCertPath: %s holds no certificate with its key, in PEM or PKCS #12; check aadClientCertPassword, too", c.Certificate)
	}
	return azidentity.NewClientCertificateCredential(c.Tenant, c.ClientID, chain, key, &azidentity.ClientCertificateCredentialOptions{ClientOptions: of})
}
