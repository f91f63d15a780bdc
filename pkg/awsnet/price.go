package awsnet

import (
	"cmp"
	"fmt"
	"slices"
)

// Prices are what AWS bills for each hour, in US dollars, without traffic and taxes.
type Prices struct{ NATGateway, Balancer, Address, Bastion float64 }

// PricesOf is the year of the prices, which are not AWS's own list.
const PricesOf = "2025"

// prices are those of regions. What is not here is unknown: AWS's prices differ between
// regions, and no other one is a guess for them.
var prices = map[string]Prices{
	"us-east-1": {NATGateway: 0.045, Balancer: 0.0225, Address: 0.005, Bastion: 0.0104},
}

// Cost is what some objects of one kind cost.
type Cost struct {
	What    string
	Count   int
	Monthly float64 // of all, with 730 hours
}

// hours is the length of a month in hours, as AWS counts it.
const hours = 730

// Price returns what a network costs a month while nothing uses it, and false if the
// region's prices are unknown: then Monthly is zero. VPCs, subnets, tables, gateways
// other than NAT gateways, security groups and gateway endpoints cost nothing.
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
