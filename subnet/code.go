package subnet

import "errors"

// codes are the reasons for which a lease is rejected, for programs.
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

// Code returns the reason in a word, for programs; "other" for one that has none.
func (e *LeaseError) Code() string {
	for _, c := range codes {
		if errors.Is(e.Err, c.err) {
			return c.code
		}
	}
	return "other"
}

// RejectionCodes lists what LeaseError.Code returns.
func RejectionCodes() []string {
	var all []string
	for _, c := range codes {
		all = append(all, c.code)
	}
	return append(all, "other")
}
