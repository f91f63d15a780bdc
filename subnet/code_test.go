package subnet

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

func TestLeaseErrorCode(t *testing.T) {
	for err, want := range map[error]string{
		ErrKey: "bad-key", ErrValue: "bad-value", ErrNoSubnet: "no-subnet", ErrOutsideNetwork: "outside-network", ErrBackendType: "other-backend",
		ErrPublicIP: "bad-public-ip", ErrOwnSubnet: "overlaps-own", ErrOverlap: "overlaps-earlier", errors.New("new"): "other",
	} {
		e := &LeaseError{"10.5.1.0-24", fmt.Errorf("%w: and more", err)}
		if got := e.Code(); got != want || !slices.Contains(RejectionCodes(), got) {
			t.Errorf("%v has the code %s, want %s", err, got, want)
		}
	}
}
