package aws

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/middleware"
)

const (
	// connectLimit is the timeout of a TLS handshake with the API.
	connectLimit = 5 * time.Second
	// loadLimit is how long the SDK may take to find credentials and the region, for
	// example from the instance's metadata service.
	loadLimit = 10 * time.Second
	// mostConnections limits the idle connections to a host.
	mostConnections = 32
)

var regionName = regexp.MustCompile(`^[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}$`)

// load returns the SDK's configuration: credentials, region and HTTP client.
func load(ctx context.Context, o Options) (aws.Config, error) {
	ctx, cancel := context.WithTimeout(ctx, loadLimit)
	defer cancel()
	options := []func(*config.LoadOptions) error{
		config.WithHTTPClient(newHTTP()), config.WithAPIOptions([]func(*middleware.Stack) error{awsmiddleware.AddUserAgentKey(o.Agent)}),
	}
	region, source := o.Config.Region, "Region of the cloud config"
	if region == "" {
		options = append(options, config.WithEC2IMDSRegion())
		source = "the environment, the shared config or the instance"
	} else {
		options = append(options, config.WithRegion(region))
	}
	loaded, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return loaded, fmt.Errorf("load the AWS configuration: %s; set AWS_REGION, and check the variables AWS_… and the files in ~/.aws", clip(err.Error()))
	}
	if !regionName.MatchString(loaded.Region) || !labelValue.MatchString(loaded.Region) {
		return loaded, fmt.Errorf("%.40q, from %s, is not a region; set AWS_REGION, as in AWS_REGION=eu-west-1, or Region in the cloud config", loaded.Region, source)
	}
	if role := o.Config.RoleARN; role != "" {
		assume := sts.NewFromConfig(loaded, func(to *sts.Options) {
			to.BaseEndpoint, to.HTTPClient = endpoint(o.Config, "sts", to.BaseEndpoint), plain{to.HTTPClient}
		})
		loaded.Credentials = aws.NewCredentialsCache(stscreds.NewAssumeRoleProvider(assume, role))
	}
	return loaded, nil
}

// newHTTP returns the HTTP client for all services.
func newHTTP() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.TLSHandshakeTimeout, t.MaxIdleConnsPerHost = connectLimit, mostConnections
	})
}

// plain hides the method WriteTo of request bodies. The SDK closes a body as soon as the
// header of the answer arrives, and WriteTo then returns an error. net/http closes the
// connection because of it, while the SDK still reads the answer: a change that was made looks
// lost. Only a fast API shows this, such as one in the VPC.
type plain struct{ aws.HTTPClient }

// Do implements aws.HTTPClient.
func (c plain) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		r = r.WithContext(r.Context()) // a copy
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return c.HTTPClient.Do(r)
}

// endpoint returns the URL of a service: from the cloud config, or else the SDK's.
func endpoint(c Config, service string, found *string) *string {
	if url := c.Endpoints[service]; url != "" {
		return &url
	}
	return found
}
