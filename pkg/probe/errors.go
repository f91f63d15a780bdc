package probe

import "errors"

// errLost is a packet that nothing came back for.
var errLost = errors.New("no answer")

func isLost(err error) bool { return errors.Is(err, errLost) }
