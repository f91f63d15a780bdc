package subnet

// leaving holds the lingering entries of a Table, and finds those of a node.
type leaving struct {
	entries map[*entry]int                 // the round of DropLingering in which each began to linger
	nodes   map[string]map[*entry]struct{} // by each of the node's marks
	rounds  int                            // calls of DropLingering so far
	begun   int                            // entries that were added so far
}

// marks returns keys to find a node's leases by. Any two Attrs of one node, as
// Attrs.SameNode defines it, share a key.
func (a Attrs) marks() []string {
	var marks []string
	if a.Node.Instance != "" {
		marks = append(marks, "instance "+a.Node.Instance)
	} else if a.Node.ID != "" {
		marks = append(marks, "id "+a.Node.ID)
	}
	for _, ip := range a.PublicIP {
		if ip.IsValid() {
			marks = append(marks, ip.String())
		}
	}
	return marks
}

func (l *leaving) add(e *entry) {
	if l.entries == nil {
		l.entries, l.nodes = map[*entry]int{}, map[string]map[*entry]struct{}{}
	}
	e.leaving = true
	l.entries[e] = l.rounds
	l.begun++
	for _, mark := range e.lease.marks() {
		if l.nodes[mark] == nil {
			l.nodes[mark] = map[*entry]struct{}{}
		}
		l.nodes[mark][e] = struct{}{}
	}
}

func (l *leaving) remove(e *entry) {
	if !e.leaving {
		return
	}
	e.leaving = false
	delete(l.entries, e)
	for _, mark := range e.lease.marks() {
		if delete(l.nodes[mark], e); len(l.nodes[mark]) == 0 {
			delete(l.nodes, mark)
		}
	}
}

// of returns the lingering entries of the node that published a.
func (l *leaving) of(a Attrs) []*entry {
	if len(l.entries) == 0 {
		return nil
	}
	var found []*entry
	for _, mark := range a.marks() {
		for e := range l.nodes[mark] {
			if e.lease.SameNode(a) {
				found = append(found, e)
			}
		}
	}
	return found
}
