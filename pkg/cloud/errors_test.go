package cloud

import (
	"errors"
	"fmt"
	"testing"
)

// TestReasonIsTheSameInEachTry: the ID of a request is in the text of an error, and not in the
// reason that is compared with that of the last try.
func TestReasonIsTheSameInEachTry(t *testing.T) {
	denied := func(id string) error { return &Error{Kind: Denied, Action: "Read", Text: "allow it", Request: id} }
	for _, in := range []func(error) error{
		func(err error) error { return err },
		func(err error) error { return fmt.Errorf("read the account: %w; retrying", err) },
		func(err error) error { return errors.Join(errors.New("other"), fmt.Errorf("two: %w", err)) },
		func(err error) error { return fmt.Errorf("%w and %w", err, denied("same")) },
	} {
		first, second := in(denied("id-1")), in(denied("id-2"))
		if first.Error() == second.Error() || Reason(first) != Reason(second) {
			t.Errorf("%v and %v have the reasons %q and %q", first, second, Reason(first), Reason(second))
		}
	}
	for want, err := range map[string]error{
		"":                         nil,
		"other (request id-1)":     errors.New("other (request id-1)"),
		"Read: allow it":           denied("id-1"),
		"a: Read: allow it, later": fmt.Errorf("a: %w, later", denied("id-1")),
	} {
		if got := Reason(err); got != want {
			t.Errorf("the reason of %v is %q, want %q", err, got, want)
		}
	}
	if got := denied("id-1").Error(); got != "Read: allow it (request id-1)" {
		t.Error(got)
	}
}
