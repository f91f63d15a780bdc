package main

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/aws"
	"github.com/tulle-net/tulle/pkg/controller/awscluster"
)

// regionIdle is how long a region's client is kept after its last use: longer than any time
// between two comparisons, and than AWS's rates and late answers matter.
const regionIdle = 25 * time.Hour

// accounts are the clients of AWS by region. All have the same credentials.
type accounts struct {
	share  float64
	beside *aws.Client // of --cloud-provider=aws; nil without it

	mu      sync.Mutex
	regions map[string]*regionClient
	past    map[cloud.Call]int // requests of clients that are dropped
}

// regionClient is the client of a region, and when it was last asked for.
type regionClient struct {
	*aws.Client
	used time.Time
}

// in returns the client of a region.
func (a *accounts) in(region string) (awscluster.Cloud, error) {
	if client := a.use(region, nil, time.Now()); client != nil {
		return account{client}, nil
	}
	made, err := aws.New(context.Background(), aws.Options{Networks: true, Config: aws.Config{Region: region}, Share: a.share, Beside: a.beside, Agent: "tulle-controller/" + version})
	if err != nil {
		return nil, fmt.Errorf("region %s: %w", region, err)
	}
	client := a.use(region, made, time.Now())
	if client == made { // another reading may have been faster
		klog.InfoS("Using a region of AWS", "region", region)
	}
	return account{client}, nil
}

// use returns the client of a region, which is made unless there is one. It drops clients of
// regions that no network has had for long: an AWSCluster may name any region.
func (a *accounts) use(region string, made *aws.Client, now time.Time) *aws.Client {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.regions, func(name string, r *regionClient) bool {
		old := name != region && now.Sub(r.used) > regionIdle
		if old {
			addCalls(a.past, r.Calls())
		}
		return old
	})
	r := a.regions[region]
	switch {
	case r == nil && made == nil:
		return nil
	case r == nil:
		r = &regionClient{Client: made}
		a.regions[region] = r
	}
	r.used = now
	return r.Client
}

// Calls returns the requests in all regions.
func (a *accounts) Calls() map[cloud.Call]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := maps.Clone(a.past)
	for _, r := range a.regions {
		addCalls(all, r.Calls())
	}
	return all
}

// addCalls adds counts of requests.
func addCalls(to, more map[cloud.Call]int) {
	for call, n := range more {
		to[call] += n
	}
}
