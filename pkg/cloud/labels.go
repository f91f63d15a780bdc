package cloud

import (
	"regexp"
	"sync"

	"k8s.io/klog/v2"
)

const (
	// mostDropped limits how many dropped facts are logged.
	mostDropped = 20
	// longestDropped limits the length of a dropped fact in the log.
	longestDropped = 200
)

// Labels checks facts of instances that become labels of their Nodes. The zero Labels is
// ready to use, and safe for concurrent use.
type Labels struct {
	mu      sync.Mutex
	dropped map[string]bool // logged ones
}

// Check returns a fact of an instance. It drops a value that does not have the form of a
// label, and logs it once. With that value, the API server would refuse the whole patch of
// the Node.
func (l *Labels) Check(what, fact, instance string, form *regexp.Regexp) string {
	if fact == "" || form.MatchString(fact) {
		return fact
	}
	fact = fact[:min(len(fact), longestDropped)]
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dropped == nil {
		l.dropped = make(map[string]bool)
	}
	if key := what + " " + fact; !l.dropped[key] && len(l.dropped) < mostDropped {
		l.dropped[key] = true
		klog.InfoS("Ignoring a fact of an instance; no label can have this value", "instance", instance, "fact", what, "value", fact)
	}
	return ""
}
