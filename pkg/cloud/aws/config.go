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
	// connectLimit is how long a connection to the API may take.
	connectLimit = 5 * time.Second
	// loadLimit is how long the instance's metadata service may take to name the region.
	loadLimit = 10 * time.Second
	// mostConnections is how many idle connections to a host are kept.
	mostConnections = 32
)

var regionName = regexp.MustCompile(`^[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}$`)

// load returns the SDK's configuration: credentials, region and the way to the API.
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

// newHTTP returns the client of HTTP for all services.
func newHTTP() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.TLSHandshakeTimeout, t.MaxIdleConnsPerHost = connectLimit, mostConnections
	})
}

// plain sends bodies without their method WriteTo. That of the SDK returns an error after
// the SDK closed the body, which it does as soon as the header of the answer is there.
// The connection is then closed while the rest of the answer is read, so that a change
// that was made looks lost. Only a fast API shows it, such as one in the VPC.
type plain struct{ aws.HTTPClient }

// Do implements aws.HTTPClient.
func (c plain) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		r = r.WithContext(r.Context()) // a copy
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return c.HTTPClient.Do(r)
}

// endpoint returns where a service is: what the cloud config says, or what the SDK found.
func endpoint(c Config, service string, found *string) *string {
	if url := c.Endpoints[service]; url != "" {
		return &url
	}
	return found
}
