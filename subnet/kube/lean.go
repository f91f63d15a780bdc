package kube

import "errors"

// form is how Nodes are asked for: whole, or lean, their metadata alone, which is a
// small part of it. A resourceVersion means the same in both: a watch of one form
// goes on from where one of the other had come to.
type form struct {
	kind, list         string
	accept, acceptList string
}

const metadata = "PartialObjectMetadata"

func formOf(lean bool) form {
	if !lean {
		return form{"Node", "NodeList", protobuf, protobuf}
	}
	as := func(kind string) string { return protobuf + ";as=" + kind + ";g=meta.k8s.io;v=v1" }
	return form{metadata, metadata + "List", as(metadata), as(metadata + "List")}
}

// errForm has a session begun anew at once, in the other form.
var errForm = errors.New("to be watched in another form")

// refuse has the next session be of whole Nodes.
func (f *follower) refuse() error {
	f.refused = true
	return errForm
}

// reform has the follower choose again, if it is in the midst of a session.
func (f *follower) reform() {
	if end := f.again.Load(); end != nil {
		(*end)(errForm)
	}
}

// choose decides on the form of the next session. The own Node is always whole;
// the others are lean where the own podCIDRs say what claims are to look like, and
// next to all Nodes have one.
func (f *follower) choose() {
	switch {
	case f.scope == itself:
	case f.refused:
		// Until all are listed, and for one session more; by then the server may be
		// upgraded, and who ran flannel too.
		f.lean, f.refused = false, f.from == ""
	case f.lean && f.book.crowded():
		f.lean, f.from = false, ""
	case !f.lean && f.from == "":
		f.lean = f.book.leanable()
	case !f.lean:
		if f.book.allow(few) {
			f.trouble.Forget(checking)
		}
		f.lean = f.book.leanable()
	}
}
