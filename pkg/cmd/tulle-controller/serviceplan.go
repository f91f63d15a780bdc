package main

import (
	"fmt"

	"github.com/tulle-net/tulle/pkg/cloudbalancer"
	"github.com/tulle-net/tulle/pkg/controller/service"
)

// quotaAnswer is how much room a quota leaves for a plan.
type quotaAnswer struct {
	What    string `json:"what"`
	Used    int    `json:"used"`
	More    int    `json:"more"`
	Most    int    `json:"most"`
	Assumed string `json:"assumed,omitempty"`
}

// priceAnswer is what a plan adds to the bill for each hour.
type priceAnswer struct {
	What    string   `json:"what"`
	More    int      `json:"more"`
	Region  string   `json:"region"`
	Dollars *float64 `json:"dollars,omitempty"`
	AsOf    string   `json:"asOf,omitempty"`
}

// newQuotaAnswers returns the quotas of load balancing.
func newQuotaAnswers(r service.Report) []quotaAnswer {
	all := []quotaAnswer{
		{What: "load balancers of the cluster", Used: r.Balancers, More: r.Planned.Balancers, Most: r.Quota.Balancers},
		{What: "target groups of the cluster", Used: r.Groups, More: r.Planned.Groups, Most: r.Quota.Groups},
	}
	for _, g := range r.Planned.Rules {
		all = append(all, quotaAnswer{What: "rules of " + g.Group, Used: g.Now, More: g.Then - g.Now, Most: r.Quota.Rules, Assumed: r.Quota.Assumed})
	}
	return all
}

// newPriceAnswers returns what a plan costs in a region, nothing if that does not change.
func newPriceAnswers(p service.Planned, region string) []priceAnswer {
	price, known := cloudbalancer.PriceIn(region)
	all := []priceAnswer{}
	add := func(what string, n int, each float64) {
		if n == 0 {
			return
		}
		a := priceAnswer{What: what, More: n, Region: region}
		if known {
			dollars := float64(n) * each
			a.Dollars, a.AsOf = &dollars, cloudbalancer.PricesOf
		}
		all = append(all, a)
	}
	add("load balancers", p.Balancers, price.Balancer)
	add("public addresses", p.Addresses, price.Address)
	return all
}

func (q quotaAnswer) String() string {
	most := "an unknown quota"
	if q.Most > 0 {
		most = fmt.Sprint(q.Most, " in the quota, ", q.Most-q.Used-q.More, " then free")
	}
	text := fmt.Sprintf("%s: %d, %+d planned, %s", q.What, q.Used, q.More, most)
	if q.Assumed != "" {
		text += " (" + q.Assumed + ")"
	}
	return text
}

func (p priceAnswer) String() string {
	if p.Dollars == nil {
		return fmt.Sprintf("%s: %+d, whose price in %s is not known here; see AWS's price list", p.What, p.More, p.Region)
	}
	return fmt.Sprintf("%s: %+d, %+.4f dollars an hour in %s, without traffic, by AWS's list of %s", p.What, p.More, *p.Dollars, p.Region, p.AsOf)
}
