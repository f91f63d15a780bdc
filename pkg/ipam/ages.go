package ipam

import "slices"

// ages are when the Nodes of a pool were created. A change is cheap: inOrder sorts what has
// changed since its last call.
type ages struct {
	sorted     []int64
	came, went []int64 // since the last call of inOrder
}

// mostUnsorted limits the changes that inOrder has not sorted yet, beyond the number of Nodes.
const mostUnsorted = 1024

func (a *ages) add(created int64) {
	a.came = append(a.came, created)
	a.limit()
}

func (a *ages) remove(created int64) {
	a.went = append(a.went, created)
	a.limit()
}

func (a *ages) limit() {
	if len(a.came)+len(a.went) > len(a.sorted)+mostUnsorted {
		a.inOrder()
	}
}

// inOrder returns all creation times, the oldest first. The slice is valid until the next
// change.
func (a *ages) inOrder() []int64 {
	if len(a.came)+len(a.went) == 0 {
		return a.sorted
	}
	slices.Sort(a.came)
	slices.Sort(a.went)
	old, came, went := a.sorted, a.came, a.went
	a.sorted = make([]int64, 0, len(old)+len(came)-len(went))
	for len(old)+len(came) > 0 {
		from := &old
		if len(old) == 0 || len(came) > 0 && came[0] < old[0] {
			from = &came
		}
		next := (*from)[0]
		*from = (*from)[1:]
		if len(went) > 0 && went[0] == next {
			went = went[1:]
			continue
		}
		a.sorted = append(a.sorted, next)
	}
	a.came, a.went = nil, nil
	return a.sorted
}
