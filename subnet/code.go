package subnet

import "errors"

// codes names the reasons for rejecting a lease, for programs.
var codes = []struct {
	err  error
	code string
}{
	{ErrKey, "bad-key"},
	{ErrValue, "bad-value"},
	{ErrNoSubnet, "no-subnet"},
	{ErrOutsideNetwork, "outside-network"},
	{ErrBackendType, "other-backend"},
	{ErrPublicIP, "bad-public-ip"},
	{ErrOwnSubnet, "overlaps-own"},
	{ErrOverlap, "overlaps-earlier"},
}

// Code returns the code of the reason, or "other" for a reason without one.
func (e *LeaseError) Code() string {
	for _, c := range codes {
		if errors.Is(e.Err, c.err) {
			return c.code
		}
	}
	return "other"
}

// RejectionCodes returns all codes that LeaseError.Code may return.
func RejectionCodes() []string {
	var all []string
	for _, c := range codes {
		all = append(all, c.code)
	}
	return append(all, "other")
}
