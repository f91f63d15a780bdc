package probe

import "errors"

// errLost is returned for a packet without an answer.
var errLost = errors.New("no answer")

func isLost(err error) bool { return errors.Is(err, errLost) }
