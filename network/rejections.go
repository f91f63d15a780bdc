package network

import (
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/subnet"
)

const (
	// fewRejected is how many rejected leases are logged and reported individually.
	fewRejected = 10
	// rejectionPause is the time without a rejection after which the first few are logged
	// again.
	rejectionPause = 10 * time.Minute
)

// rejections logs rejected leases: the first few with their reason, and then only their
// number, each time that it has doubled.
type rejections struct {
	logged int       // one by one
	next   int       // the number to log next; zero after a pause
	last   time.Time // when one came
	all    int       // how many there were at the last call
}

// log logs rejected, of all that are rejected now.
func (r *rejections) log(rejected []*subnet.LeaseError, all int, now time.Time) {
	before := r.all
	if r.all = all; len(rejected) == 0 && all <= before {
		return
	}
	if now.Sub(r.last) >= rejectionPause {
		r.logged, r.next = 0, 0
	}
	r.last = now
	for _, e := range rejected[:min(len(rejected), fewRejected-r.logged)] {
		klog.InfoS("Rejected a lease", "key", e.Key, "reason", e.Err)
		r.logged++
	}
	if all > fewRejected && all > r.next {
		klog.InfoS("Rejected more leases; logging only their number", "count", all)
		r.next = 2 * all
	}
}
