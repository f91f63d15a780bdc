package netstate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Unknown is the error of a dump without what some programs hold, by the links that they
// serve: they do not answer. The dump has all else, also what the kernel knows of these links.
type Unknown map[string]error

func (u Unknown) Error() string {
	link := slices.Min(slices.Collect(maps.Keys(u)))
	text := fmt.Sprintf("link %s: %v", link, u[link])
	if more := len(u) - 1; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// With returns u with a link whose program does not answer.
func (u Unknown) With(link string, err error) Unknown {
	if u == nil {
		u = make(Unknown)
	}
	u[link] = err
	return u
}

// Hides reports whether an object with this key may exist although the dump does not have it.
func (u Unknown) Hides(k Key) bool {
	return (k.Kind == KindWGPeer || k.Kind == KindWGAllowed) && u[k.Name] != nil
}

// UnknownOf splits the error of a dump: the dump can be used without what is unknown, unless
// failed is not nil.
func UnknownOf(err error) (u Unknown, failed error) {
	if errors.As(err, &u) {
		return u, nil
	}
	return nil, err
}
