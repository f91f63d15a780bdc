package awsnet

import (
	"cmp"
	"fmt"
	"slices"
)

// Prices are AWS's prices per hour, in US dollars, without traffic and taxes.
type Prices struct{ NATGateway, Balancer, Address, Bastion float64 }

// PricesOf is the year of the prices. They do not come from AWS's own list.
const PricesOf = "2025"

// prices are the prices by region. Those of other regions are unknown: prices differ
// between regions, so another region's are no guess.
var prices = map[string]Prices{
	"us-east-1": {NATGateway: 0.045, Balancer: 0.0225, Address: 0.005, Bastion: 0.0104},
}

// Cost is the cost of some objects of one kind.
type Cost struct {
	What    string
	Count   int
	Monthly float64 // of all objects, with 730 hours
}

// hours is the number of hours that AWS counts for a month.
const hours = 730

// Price returns the monthly cost of a network without traffic, and false if the
// region's prices are unknown: Monthly is then zero. VPCs, subnets, tables, gateways
// other than NAT gateways, security groups and gateway endpoints are free.
func Price(want map[Key]Wanted, region string) (costs []Cost, known bool) {
	price, known := prices[region]
	count := make(map[string]int)
	each := make(map[string]float64)
	add := func(what string, n int, hourly float64) {
		if n > 0 {
			count[what] += n
			each[what] = hourly
		}
	}
	for _, w := range want {
		switch o := w.Object.(type) {
		case NATGateway:
			add("NAT gateway", 1, price.NATGateway)
		case Address:
			add("public IPv4 address", 1, price.Address)
		case Balancer:
			add("network load balancer", 1, price.Balancer)
			if o.Scheme == InternetFacing && o.Elastic == "" {
				add("public IPv4 address", len(o.Subnets.All()), price.Address)
			}
		case Bastion:
			add("public IPv4 address", 1, price.Address)
			if o.Type == "t3.micro" {
				add("bastion of type t3.micro", 1, price.Bastion)
			} else {
				add(fmt.Sprintf("bastion of type %s, at a price not known here", o.Type), 1, 0)
			}
		}
	}
	for what, n := range count {
		costs = append(costs, Cost{what, n, each[what] * float64(n) * hours})
	}
	slices.SortFunc(costs, func(a, b Cost) int { return cmp.Or(cmp.Compare(b.Monthly, a.Monthly), cmp.Compare(a.What, b.What)) })
	return costs, known
}
