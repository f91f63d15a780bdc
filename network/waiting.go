package network

// reason is what a node waits for before it is ready.
type reason int

const (
	onConfig reason = iota
	onRestart
	onUplink
	onBackend
	onLease
	onFiles
	onBridge
	onList
	onKernel
)

// await records that the node waits for something, and reports whether that is new.
func (a *Agent) await(r reason, why string) bool {
	before := a.waiting[r]
	a.waiting[r] = why
	if before != why {
		a.changed()
	}
	return before != why
}

// stopWaiting records that the node no longer waits for something, and reports
// whether it did.
func (a *Agent) stopWaiting(r reason) bool {
	_, waited := a.waiting[r]
	delete(a.waiting, r)
	if waited {
		a.changed()
	}
	return waited
}

func (a *Agent) changed() {
	if a.Changed != nil {
		a.Changed()
	}
}
