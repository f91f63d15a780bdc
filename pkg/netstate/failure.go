package netstate

import (
	"errors"
	"fmt"
	"strings"
)

// OpError says that one step of a plan failed.
type OpError struct {
	Op  Op
	Err error
}

func (e *OpError) Error() string { return fmt.Sprintf("%s: %v", e.Op, e.Err) }

func (e *OpError) Unwrap() error { return e.Err }

// ErrUnfinished is why a step failed that is still under way.
var ErrUnfinished = errors.New("not finished yet")

// ErrRepeated is why a step is unfinished that has failed, and is tried again by itself.
var ErrRepeated = fmt.Errorf("%w: it is tried again", ErrUnfinished)

// Failures is what applying a plan returns when some steps failed; all others
// were done.
type Failures []*OpError

func (f Failures) Error() string {
	const shown = 3
	var b strings.Builder
	for i, e := range f {
		if i == shown {
			fmt.Fprintf(&b, "; and %d more", len(f)-shown)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(e.Error())
	}
	return b.String()
}

// Unwrap lets errors.Is and errors.As look at each failure.
func (f Failures) Unwrap() []error {
	errs := make([]error, len(f))
	for i, e := range f {
		errs[i] = e
	}
	return errs
}
