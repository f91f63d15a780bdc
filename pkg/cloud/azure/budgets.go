package azure

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// defaultShare is the part of the published rates that a Client uses.
const defaultShare = 0.5

// The actions, in the words of Azure's roles.
const (
	readTable      = "Microsoft.Network/routeTables/read"
	writeTable     = "Microsoft.Network/routeTables/write"
	readInterface  = "Microsoft.Network/networkInterfaces/read"
	writeInterface = "Microsoft.Network/networkInterfaces/write"
	readPublicIP   = "Microsoft.Network/publicIPAddresses/read"
	readUsages     = "Microsoft.Network/locations/usages/read"
	readMachine    = "Microsoft.Compute/virtualMachines/read"
	readSet        = "Microsoft.Compute/virtualMachineScaleSets/read"
	readSetMachine = "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read"
	readSetNetwork = "Microsoft.Compute/virtualMachineScaleSets/networkInterfaces/read"
	readSetPublic  = "Microsoft.Compute/virtualMachineScaleSets/publicIPAddresses/read"
	readOperation  = "Microsoft.Network/locations/operations/read"
)

// The published buckets: those of Azure Resource Manager for an identity in a
// subscription, and of writes the smaller one of Microsoft.Network, 1,000 in five minutes.
var (
	publishedReads  = cloud.Budget{Burst: 250, Rate: 25}
	publishedWrites = cloud.Budget{Burst: 200, Rate: 1000.0 / 300}
)

// bucketOf returns the bucket that an action is paced by. Azure counts all reads together,
// and all writes.
func bucketOf(action string) string {
	if strings.HasSuffix(action, "/write") {
		return "writes"
	}
	return "reads"
}

func budgetOf(bucket string, share float64) cloud.Budget {
	b := publishedReads
	if bucket == "writes" {
		b = publishedWrites
	}
	return cloud.Budget{Burst: max(1, b.Burst*share), Rate: b.Rate * share}
}

// fewRemain is a number of remaining requests at which the Client slows down, before Azure
// refuses any.
const fewRemain = 10

// remainders are the headers that say how many requests are left for now.
var remainders = []string{
	"X-Ms-Ratelimit-Remaining-Subscription-Reads", "X-Ms-Ratelimit-Remaining-Subscription-Writes",
	"X-Ms-Ratelimit-Remaining-Subscription-Global-Reads", "X-Ms-Ratelimit-Remaining-Subscription-Global-Writes",
	"X-Ms-Ratelimit-Remaining-Tenant-Reads", "X-Ms-Ratelimit-Remaining-Tenant-Writes",
}

// isScarce reports whether an answer says that few requests are left.
func isScarce(h http.Header) bool {
	for _, name := range remainders {
		if n, err := strconv.Atoi(h.Get(name)); err == nil && n < fewRemain {
			return true
		}
	}
	// Microsoft.Compute has counters of its own: Microsoft.Compute/GetVM3Min;239,…
	for item := range strings.SplitSeq(strings.Join(h.Values("X-Ms-Ratelimit-Remaining-Resource"), ","), ",") {
		_, left, ok := strings.Cut(item, ";")
		if n, err := strconv.Atoi(strings.TrimSpace(left)); ok && err == nil && n < fewRemain {
			return true
		}
	}
	return false
}
