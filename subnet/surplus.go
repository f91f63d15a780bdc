package subnet

import "hash/maphash"

const (
	// mostUnreadable is how many unreadable keys a Table knows in detail. A store may
	// hold any number of them.
	mostUnreadable = 1000
	// longestDetailed is the length of the longest such key, in bytes. No lease's key
	// is as long.
	longestDetailed = 200
)

var seed = maphash.MakeSeed()

// surplus counts unreadable keys that a Table does not know in detail. It holds a
// hash of each, 8 bytes however long the key is. Two keys with one hash, which are
// unlikely, count as one.
type surplus map[uint64]struct{}

func (s *surplus) add(key string) {
	if *s == nil {
		*s = make(surplus)
	}
	(*s)[maphash.String(seed, key)] = struct{}{}
}

func (s surplus) remove(key string) {
	if len(s) > 0 {
		delete(s, maphash.String(seed, key))
	}
}
