package trouble

import "k8s.io/klog/v2"

// Outcome is the result of something that is tried repeatedly. It logs the first of
// several failures, and the first success after them. It is not safe for concurrent use.
type Outcome struct {
	Failed string // the line for the first of several failures
	Works  string // the line for the first success after a failure; "" logs none
	// EachReason also logs a failure whose error differs from the one before: for what
	// a person corrects step by step.
	EachReason bool
	// Reason returns the text by which EachReason compares errors. It is the error's own
	// text unless set: for texts that differ from try to try.
	Reason func(error) string
	err    error
}

// Was records the result of one try. facts are keys and values for the log.
func (o *Outcome) Was(err error, facts ...any) {
	switch {
	case err != nil && (o.err == nil || o.EachReason && o.reason(err) != o.reason(o.err)):
		klog.ErrorS(err, o.Failed, facts...)
	case err == nil && o.err != nil && o.Works != "":
		klog.InfoS(o.Works, facts...)
	}
	o.err = err
}

func (o *Outcome) reason(err error) string {
	if o.Reason == nil {
		return err.Error()
	}
	return o.Reason(err)
}

// Forget drops the failure of what is no longer tried. It logs nothing.
func (o *Outcome) Forget() { o.err = nil }

// Err returns the last error, or nil after a success.
func (o *Outcome) Err() error { return o.err }
