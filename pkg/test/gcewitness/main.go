// Command gcewitness asks a Compute Engine API with Google's own client, and prints what
// that makes of the answers. The tests of pkg/cloud/gce compare it with their client on
// one server. It is a module of its own: no program of ours links Google's client.
//
//	gcewitness ENDPOINT TOKEN PROJECT ZONE list [FILTER]
//	gcewitness ENDPOINT TOKEN PROJECT ZONE add INSTANCE FINGERPRINT RANGE FROM REQUEST
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"

	"google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
)

// Testimony is what the witness prints.
type Testimony struct {
	Instances []*compute.Instance
	Pages     int
	Operation *compute.Operation
	// Code and Reason are those of a refusal.
	Code   int
	Reason string
}

// signed adds the token to requests.
type signed struct{ token string }

func (s signed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+s.token)
	return http.DefaultTransport.RoundTrip(r)
}

func main() {
	if len(os.Args) < 6 {
		fmt.Fprintln(os.Stderr, "gcewitness: needs ENDPOINT TOKEN PROJECT ZONE and what to do")
		os.Exit(2)
	}
	said, err := ask(context.Background(), os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5:])
	if refused := (*googleapi.Error)(nil); errors.As(err, &refused) {
		said.Code = refused.Code
		if len(refused.Errors) > 0 {
			said.Reason = refused.Errors[0].Reason
		}
		err = nil
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(said)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gcewitness:", err)
		os.Exit(1)
	}
}

// ask does what args say.
func ask(ctx context.Context, endpoint, token, project, zone string, args []string) (said Testimony, err error) {
	api, err := compute.NewService(ctx, option.WithEndpoint(endpoint), option.WithHTTPClient(&http.Client{Transport: signed{token}}))
	if err != nil {
		return said, err
	}
	switch {
	case args[0] == "list" && len(args) <= 2:
		list := api.Instances.List(project, zone).MaxResults(500)
		if len(args) == 2 {
			list = list.Filter(args[1])
		}
		return said, list.Pages(ctx, func(page *compute.InstanceList) error {
			said.Pages++
			said.Instances = append(said.Instances, page.Items...)
			return nil
		})
	case args[0] == "add" && len(args) == 6:
		i, err := api.Instances.Get(project, zone, args[1]).Context(ctx).Do()
		if err != nil {
			return said, err
		}
		d := i.NetworkInterfaces[0]
		said.Operation, err = api.Instances.UpdateNetworkInterface(project, zone, i.Name, d.Name, &compute.NetworkInterface{
			Fingerprint: args[2], AliasIpRanges: append(d.AliasIpRanges, &compute.AliasIpRange{IpCidrRange: args[3], SubnetworkRangeName: args[4]}),
		}).RequestId(args[5]).Context(ctx).Do()
		for err == nil && said.Operation.Status != "DONE" {
			said.Operation, err = api.ZoneOperations.Wait(project, zone, said.Operation.Name).Context(ctx).Do()
		}
		return said, err
	}
	return said, fmt.Errorf("unexpected arguments %q", args)
}
