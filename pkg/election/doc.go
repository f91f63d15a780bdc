// Package election elects one leader among the replicas of a program, on a Lease of a
// Kubernetes cluster. The Lease has the form and the meaning of client-go's LeaseLock,
// so other programs can take part and tools can show who leads.
//
//	e, err := election.New(election.Options{Client: c, Namespace: "kube-system", Name: "my-controller", Identity: host})
//	e.Run(ctx, func(ctx context.Context, t election.Term) (clean bool) {
//		// leads until ctx ends; begins no write after t.Deadline()
//		return true // no write is under way
//	})
//
// A Term is the time for which one replica leads. At most one replica leads at any
// moment, for these reasons:
//   - Every write of the Lease names the resourceVersion that it replaces, so the server
//     refuses a write that is based on an older state.
//   - A term ends RenewDeadline after the last successful renewal was sent. The next
//     leader waits at least LeaseDuration after it saw that renewal, which is longer.
//   - Each replica measures both with its own monotonic clock. The times in the Lease are
//     for people; no replica reads them. Only the rates of the clocks must agree.
//
// A write that the leader sent before its term ended may still arrive later. A term is
// Clean only if the leader before it released the Lease cleanly. The leader of another
// term must make late writes harmless before it decides anything.
//
// One case remains: an operator deletes the Lease while a replica leads, and another
// replica starts in the milliseconds before the leader has re-created it. That replica
// knows no earlier holder, so it creates the Lease and leads.
package election
