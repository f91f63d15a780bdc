package reconcile

import (
	"container/heap"
	"time"

	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/retry"
)

// backoff is the wait before a retry of a failed step or dump.
var backoff = retry.Backoff{First: 100 * time.Millisecond, Last: time.Minute}

// task is the work for one key.
type task struct {
	gone netstate.Object // to delete, if the key is not wanted
	// verb is how to put what is wanted, if the key still is then: Replace
	// where the kernel was last seen with ours there, or else Create, which
	// replaces nothing of another's.
	verb  netstate.Verb
	drift bool  // the kernel changed, not our mind
	wrong int64 // since when, for drift that an event reported: Unix time in nanoseconds
}

// since returns since when t's key is wrong, if known.
func (t task) since(now time.Time) time.Time {
	if t.wrong == 0 {
		return now
	}
	return time.Unix(0, t.wrong)
}

// after returns one task that serves both t and was, which came before it.
func (t task) after(was task) task {
	if !t.drift {
		t.verb = was.verb // the desired state changed, which says nothing of the kernel
	}
	if t.gone == nil {
		t.gone = was.gone
	}
	t.drift = t.drift && was.drift
	if was.wrong != 0 {
		t.wrong = was.wrong
	}
	return t
}

// failure is a key whose step was refused.
type failure struct {
	key       netstate.Key
	task      task
	err       error
	attempts  int
	since     time.Time
	retry     time.Time
	logged    bool // it is in the log
	stirred   bool // another program changed the key since the step was refused
	pass      int  // in which it was last reported
	heapIndex int  // in the heap; underWay during a retry
}

const retrying = -1

// queue holds the keys that are not known to be right: those to be worked on
// now, those that others changed, and those that failed, which wait for another
// try or are having it. A failure that is neither in the heap nor being tried
// is in ready, or left to a resync that is asked for.
type queue struct {
	ready   map[netstate.Key]task // nil while it is empty
	spare   map[netstate.Key]task // empty, for the next ready
	drifted drift
	failed  map[netstate.Key]*failure
	retries retryHeap
	pass    int // counts the takes; a take does not settle what comes during it
	taken   int // how many keys the last take took
}

func newQueue() queue {
	return queue{drifted: newDrift(), failed: make(map[netstate.Key]*failure)}
}

// empty reports whether all keys are right, as far as is known.
func (q *queue) empty() bool { return len(q.ready)+q.drifted.len()+len(q.failed) == 0 }

// add puts a key that is wanted differently from before to work now.
func (q *queue) add(k netstate.Key, t task) {
	if f := q.failed[k]; f != nil {
		t = t.after(f.task)
		q.forget(k)
	}
	if was, ok := q.ready[k]; ok {
		t = t.after(was)
	}
	q.put(k, t)
}

// put makes t what is to be done about k. In a flood of changes there is room
// at once for as many as there were before.
func (q *queue) put(k netstate.Key, t task) {
	if q.ready == nil {
		q.ready, q.spare = q.spare, nil
	}
	if q.ready == nil {
		q.ready = make(map[netstate.Key]task, q.taken)
	}
	q.ready[k] = t
}

// drift marks a key that another program changed. It is restored when its class has a
// turn. A key that failed before is retried within a second: the kernel has changed
// since, and the obstacle may be gone.
func (q *queue) drift(k netstate.Key, t task, now time.Time) {
	f := q.failed[k]
	if f == nil || f.heapIndex == retrying {
		q.drifted.add(k, t, now)
		return
	}
	f.task, f.stirred = t.after(f.task), true
	if soon := now.Add(budget.Turn); soon.Before(f.retry) {
		q.hurry(f, soon)
	}
	f.pass = q.pass
}

// take returns what is to be worked on: what is ready, the failures whose time
// has come, and of what drifted the classes whose turn it is, or those keys that
// are worked on anyway.
func (q *queue) take(now time.Time, turn func(budget.Class) bool) map[netstate.Key]task {
	q.pass++
	for len(q.retries) > 0 && !q.retries[0].retry.After(now) {
		f := heap.Pop(&q.retries).(*failure)
		f.heapIndex = retrying
		t := f.task
		if later, ok := q.ready[f.key]; ok {
			t = later.after(t)
		}
		q.put(f.key, t)
	}
	tasks := q.ready
	q.ready, q.taken = nil, len(tasks)
	if tasks == nil {
		tasks = make(map[netstate.Key]task)
	}
	q.drifted.take(tasks, turn)
	return tasks
}

// merge adds drift to tasks.
func merge(tasks map[netstate.Key]task, k netstate.Key, t task) {
	if was, ok := tasks[k]; ok {
		t = t.after(was)
	}
	tasks[k] = t
}

// reuse keeps the map of tasks that are done for the next ones.
func (q *queue) reuse(tasks map[netstate.Key]task) {
	clear(tasks)
	q.spare = tasks
}

// restore puts back a task that was taken and not carried out.
func (q *queue) restore(k netstate.Key, t task) {
	if later, ok := q.ready[k]; ok {
		t = later.after(t)
	}
	q.put(k, t)
}

// fail books a refused step, to be tried again at retry, or if that is zero
// after the time that its attempts call for. It returns nil for a key that has
// come to be worked on again meanwhile, which gets its try at once.
func (q *queue) fail(k netstate.Key, t task, err error, now, retry time.Time) *failure {
	if later, again := q.ready[k]; again {
		q.ready[k] = later.after(t)
		return nil
	}
	f := &failure{key: k, task: t, err: err, attempts: 1, since: now, retry: retry}
	if before := q.failed[k]; before != nil {
		f.attempts, f.since, f.logged = before.attempts+1, before.since, before.logged
	}
	if later, ok := q.drifted.get(k); ok {
		// The kernel has changed since; the obstacle may be gone.
		f.task, f.retry, f.stirred = later.after(t), q.drifted.burst.over(), true
		q.drifted.calm(k)
	}
	if f.retry.IsZero() {
		f.retry = now.Add(backoff.After(f.attempts))
	}
	q.postpone(f)
	return f
}

// postpone puts a failure off until its time.
func (q *queue) postpone(f *failure) {
	q.forget(f.key)
	f.pass = q.pass
	q.failed[f.key] = f
	heap.Push(&q.retries, f)
}

// hurry retries a failure at a time.
func (q *queue) hurry(f *failure, at time.Time) {
	f.pass = q.pass
	if f.heapIndex != retrying {
		f.retry = at
		heap.Fix(&q.retries, f.heapIndex)
	}
}

// settle drops a failure that the present pass found right or restored, unless an
// event about it came meanwhile.
func (q *queue) settle(k netstate.Key) {
	if f := q.failed[k]; f != nil && (f.heapIndex == retrying || f.pass != q.pass) {
		q.forget(k)
	}
}

// forget drops a failure.
func (q *queue) forget(k netstate.Key) {
	if f := q.failed[k]; f != nil {
		delete(q.failed, k)
		if f.heapIndex != retrying {
			heap.Remove(&q.retries, f.heapIndex)
		}
	}
}

// next returns when the next work is due, if ever. turn returns when a class has its
// turn.
func (q *queue) next(now time.Time, turn func(budget.Class) time.Time) (at time.Time, ok bool) {
	if len(q.ready) > 0 {
		return now, true
	}
	at, ok = q.drifted.next(turn)
	if len(q.retries) > 0 && (!ok || q.retries[0].retry.Before(at)) {
		at, ok = q.retries[0].retry, true
	}
	return at, ok
}

// retryHeap orders failures by the time of their retries.
type retryHeap []*failure

func (h retryHeap) Len() int           { return len(h) }
func (h retryHeap) Less(i, j int) bool { return h[i].retry.Before(h[j].retry) }

func (h retryHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = i, j
}

func (h *retryHeap) Push(x any) {
	f := x.(*failure)
	f.heapIndex = len(*h)
	*h = append(*h, f)
}

func (h *retryHeap) Pop() any {
	last := len(*h) - 1
	f := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return f
}
