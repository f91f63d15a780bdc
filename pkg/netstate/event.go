package netstate

// Event is a change that a kernel reports: Object was written, or is Gone. The object
// may be foreign. A nil Object reports that events were lost, so that anything may
// have changed.
type Event struct {
	Object Object
	Gone   bool
}

// Scope is what a dump returns beyond the objects that bear our mark.
type Scope struct {
	Links   []string // links that were adopted, by name
	Sysctls []string // settings to read, by path
	Objects int      // how many are likely, to make room for them at once
}
