package kube

import (
	"github.com/tulle-net/tulle/pkg/kube"
)

// follower keeps the Nodes of a scope in the book. It is the Sink of its watch, and
// chooses the format.
//
// The own Node always comes whole. The others come as their metadata, a small part of
// a Node, if the own podCIDRs define the shape of claims and nearly all Nodes have a
// claim.
type follower struct {
	*Store
	scope        scope
	what         string // the operation, as the status and the log name it
	watch        kube.Watch[kube.Node]
	metadataOnly bool // Nodes come as their metadata
	refused      bool // the server refused metadata alone, or too few Nodes have a claim
}

// begin prepares the watch. The caller runs it.
func (f *follower) begin() *kube.Watch[kube.Node] {
	w := &f.watch
	w.Client, w.Path, w.Format, w.Sink, w.Report = f.client, kube.Nodes, kube.WholeNode, f, f.report
	if f.scope == itself {
		w.Name = f.book.own()
	}
	return w
}

// report records whether the watch works.
func (f *follower) report(err error) {
	if err != nil {
		f.trouble.Failed(f.what, err)
	} else {
		f.trouble.Over(f.what)
	}
}

// List implements kube.Sink.
func (f *follower) List() kube.List[kube.Node] { return &nodeList{f, f.book.listing(f.scope)} }

// Set implements kube.Sink.
func (f *follower) Set(n *kube.Node) { f.book.take(f.scope, n) }

// Delete implements kube.Sink.
func (f *follower) Delete(n *kube.Node) { f.book.remove(f.scope, n) }

// Choose implements kube.Chooser.
func (f *follower) Choose(resumed bool) (format kube.Format[kube.Node], relist bool) {
	switch {
	case f.scope == itself:
	case f.refused:
		// Whole Nodes for the list and one more session. By then the server may be
		// upgraded, and flannel's nodes may run tulle.
		f.metadataOnly, f.refused = false, !resumed
	case f.metadataOnly && f.book.crowded():
		f.metadataOnly, relist = false, true
	case !f.metadataOnly && !resumed:
		f.metadataOnly = f.book.metadataSuffices()
	case !f.metadataOnly:
		if f.book.allow(maxSingleFetches) {
			f.trouble.Forget(checking)
		}
		f.metadataOnly = f.book.metadataSuffices()
	}
	if f.metadataOnly {
		return kube.NodeMetadata, relist
	}
	return kube.WholeNode, relist
}

// Refused implements kube.Chooser.
func (f *follower) Refused() { f.refused = true }

// Unfit implements kube.Chooser. It reports whether too many Nodes would have to be
// fetched one by one.
func (f *follower) Unfit() bool { return f.metadataOnly && f.book.crowded() }

// nodeList is the list of a scope while it arrives.
type nodeList struct {
	follower *follower
	listing  *listing
}

// Add implements kube.List.
func (l *nodeList) Add(n *kube.Node) (isNew bool) { return l.listing.add(n) }

// Delete implements kube.List.
func (l *nodeList) Delete(n *kube.Node) { delete(l.listing.nodes, string(n.Name)) }

// Done implements kube.List. It rejects a list with too many suspects, which is then
// read again as whole Nodes.
func (l *nodeList) Done() bool {
	f := l.follower
	if f.book.exceedsFetches(l.listing) {
		f.refused = true
		return false
	}
	f.book.replace(l.listing)
	return true
}
