package ipam

import "container/heap"

// queued is an item of a queue.
type queued[T any] interface {
	// before reports whether the item comes out before another.
	before(T) bool
	// place returns a pointer to the item's index in the queue.
	place() *int
}

// queue is a heap. An item is in at most one queue at a time.
type queue[T queued[T]] struct{ items []T }

func (q *queue[T]) first() (T, bool) {
	if len(q.items) == 0 {
		var none T
		return none, false
	}
	return q.items[0], true
}

func (q *queue[T]) add(item T)    { heap.Push((*heapOf[T])(q), item) }
func (q *queue[T]) remove(item T) { heap.Remove((*heapOf[T])(q), *item.place()) }
func (q *queue[T]) fix(item T)    { heap.Fix((*heapOf[T])(q), *item.place()) }

// heapOf implements heap.Interface for a queue.
type heapOf[T queued[T]] queue[T]

func (h *heapOf[T]) Len() int           { return len(h.items) }
func (h *heapOf[T]) Less(i, j int) bool { return h.items[i].before(h.items[j]) }

func (h *heapOf[T]) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	*h.items[i].place(), *h.items[j].place() = i, j
}

func (h *heapOf[T]) Push(item any) {
	added := item.(T)
	*added.place() = len(h.items)
	h.items = append(h.items, added)
}

func (h *heapOf[T]) Pop() any {
	last := len(h.items) - 1
	item := h.items[last]
	var none T
	h.items[last] = none
	h.items = h.items[:last]
	return item
}
