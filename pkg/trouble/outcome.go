package trouble

import "k8s.io/klog/v2"

// Outcome is how something goes that is tried again and again. It logs a failure
// once, and once that it is over. It is for one goroutine at a time.
type Outcome struct {
	Failed string // the line for the first of several failures
	Works  string // the line for the first success after a failure; "" is none
	err    error
}

// Was records how it went. The facts are keys and values for the log.
func (o *Outcome) Was(err error, facts ...any) {
	switch {
	case err != nil && o.err == nil:
		klog.ErrorS(err, o.Failed, facts...)
	case err == nil && o.err != nil && o.Works != "":
		klog.InfoS(o.Works, facts...)
	}
	o.err = err
}

// Err returns the last error, or nil after a success.
func (o *Outcome) Err() error { return o.err }
