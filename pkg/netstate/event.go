package netstate

// Event is a change that a kernel reports: Object was written, or is Gone. It
// may concern what is not ours. A nil Object says that events were lost and
// anything may have changed.
type Event struct {
	Object Object
	Gone   bool
}

// Scope tells a dump what counts as ours beyond what bears our mark.
type Scope struct {
	Links   []string // links that were adopted, by name
	Sysctls []string // settings to read, by path
}
