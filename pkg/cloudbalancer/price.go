package cloudbalancer

// Price is what the cloud bills for each hour, in US dollars, without traffic and taxes.
type Price struct {
	Balancer float64 // a network load balancer
	Address  float64 // a public address of IPv4
}

// PricesOf is the year of the sources of prices, which are not AWS's own list. See
// Documentation/cloud-services.md.
const PricesOf = "2025"

// prices are those of regions. What is not here is unknown: AWS's prices differ between
// regions, and no other one is a guess for them.
var prices = map[string]Price{
	"us-east-1": {Balancer: 0.0225, Address: 0.005},
}

// PriceIn returns the prices of a region, if they are known.
func PriceIn(region string) (p Price, known bool) {
	p, known = prices[region]
	return p, known
}
