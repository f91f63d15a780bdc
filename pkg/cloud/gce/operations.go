package gce

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
)

const (
	// pollFirst and pollLast limit the time between two polls of all operations that are
	// waited for.
	pollFirst, pollLast = 250 * time.Millisecond, 2 * time.Second
	// mostUnseen is how many polls in a row may lack an operation.
	mostUnseen = 5
	// pollLimit is how long a poll may take.
	pollLimit = 20 * time.Second
	// mostLate limits the operations that are remembered after their caller has left.
	mostLate = 1000
)

// operations are changes of routes that the API makes in its own time. One poll is about
// all of them.
type operations struct {
	mu      sync.Mutex
	waiting map[string]*waiting // by the operation's name
	late    map[string]late     // by the route's name
	polls   bool                // set while poll runs
	pause   time.Duration
}

// waiting is an operation that callers wait for.
type waiting struct {
	callers, unseen int
	done            chan struct{} // closed when the following is set
	ended           operation
	err             error
}

// late is an operation whose caller could not wait for its end.
type late struct {
	action string
	operation
}

// operate makes a change of the route of a name, and waits until it is made. If the last
// change of that route has not ended, its end is waited for first.
func (c *Client) operate(ctx context.Context, name string, r request) error {
	o := &c.running
	o.mu.Lock()
	last, is := o.late[name]
	delete(o.late, name)
	o.mu.Unlock()
	if is {
		err := c.awaitRoute(ctx, name, last.action, last.operation)
		switch kind := cloud.KindOf(err); {
		case err != nil && kind == cloud.Pending:
			return err
		case last.action == r.action && (err == nil || kind != cloud.Unavailable):
			return err
		}
	}
	var begun operation
	if err := c.do(ctx, r, &begun); err != nil {
		return err
	}
	return c.awaitRoute(ctx, name, r.action, begun)
}

// awaitRoute waits until an operation on a route has ended. If ctx ends first, the error
// is Pending.
func (c *Client) awaitRoute(ctx context.Context, name, action string, begun operation) error {
	if begun.Status == done {
		return begun.failure(action)
	}
	if !operationName.MatchString(begun.Name) {
		return &cloud.Error{Kind: cloud.Unavailable, Action: action, Text: fmt.Sprintf("the answer has the operation %.80q; reading the routes again", begun.Name)}
	}
	o := &c.running
	o.mu.Lock()
	w := o.waiting[begun.Name]
	if w == nil {
		w = &waiting{done: make(chan struct{})}
		if o.waiting == nil {
			o.waiting = make(map[string]*waiting)
		}
		o.waiting[begun.Name] = w
	}
	w.callers++
	o.pause = pollFirst
	if !o.polls {
		o.polls = true
		go c.poll()
	}
	o.mu.Unlock()
	select {
	case <-w.done:
		if w.err != nil {
			return &cloud.Error{Kind: cloud.Unavailable, Action: action, Text: w.err.Error()}
		}
		return w.ended.failure(action)
	case <-ctx.Done():
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if w.callers--; w.callers == 0 {
		delete(o.waiting, begun.Name)
	}
	if o.late == nil || len(o.late) >= mostLate {
		o.late = make(map[string]late)
	}
	o.late[name] = late{action, begun}
	return &cloud.Error{Kind: cloud.Pending, Action: action, Text: fmt.Sprintf("operation %.80q has not ended; waiting again", begun.Name)}
}

// poll reads all operations that are waited for until there are none.
func (c *Client) poll() {
	o := &c.running
	for {
		o.mu.Lock()
		pause := o.pause
		o.pause = min(2*pause, pollLast)
		o.mu.Unlock()
		<-time.After(pause)
		o.mu.Lock()
		names := slices.Sorted(maps.Keys(o.waiting))
		o.polls = len(names) > 0
		o.mu.Unlock()
		if len(names) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), pollLimit)
		for part := range slices.Chunk(names, mostNamed) {
			switch seen, err := c.operations(ctx, part); {
			case err == nil:
				c.take(part, seen)
			case cloud.KindOf(err) == cloud.Denied:
				c.refuse(part, err)
			}
		}
		cancel()
	}
}

// operations reads operations by their names.
func (c *Client) operations(ctx context.Context, names []string) (map[string]operation, error) {
	query := url.Values{
		"fields": {"kind,nextPageToken,warning(code,message),items(name,status,error)"}, "maxResults": {strconv.Itoa(pageSize)},
		"filter": {`(name = "` + strings.Join(names, `") OR (name = "`) + `")`},
	}
	seen := make(map[string]operation, len(names))
	for range mostPages {
		var page struct {
			list
			Items []operation `json:"items"`
			Next  string      `json:"nextPageToken"`
		}
		err := c.do(ctx, request{action: listOperations, method: http.MethodGet, at: place{project: c.network.project}, path: "global/operations", query: query}, &page)
		if err == nil {
			err = page.check(listOperations, "compute#operationList")
		}
		if err == nil && !page.Warning.isComplete() {
			err = incomplete(listOperations, "the operations", page.Warning)
		}
		if err != nil {
			return nil, err
		}
		for _, o := range page.Items {
			seen[o.Name] = o
		}
		if page.Next == "" {
			return seen, nil
		}
		query.Set("pageToken", page.Next)
	}
	return nil, &cloud.Error{Kind: cloud.Unavailable, Action: listOperations, Text: "the pages do not end; reading them again later"}
}

// take tells the callers of operations that have ended.
func (c *Client) take(names []string, seen map[string]operation) {
	o := &c.running
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range names {
		w := o.waiting[name]
		if w == nil {
			continue
		}
		now, is := seen[name]
		switch {
		case is && now.Status == done:
			w.ended = now
		case is:
			w.unseen = 0
			continue
		default:
			if w.unseen++; w.unseen < mostUnseen {
				continue
			}
			w.err = fmt.Errorf("operation %.80q is not known any more; reading the routes again", name)
		}
		delete(o.waiting, name)
		close(w.done)
	}
}

// refuse tells the callers of operations that their end cannot be seen, and why: a person
// has to grant the permission.
func (c *Client) refuse(names []string, err error) {
	o := &c.running
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range names {
		if w := o.waiting[name]; w != nil {
			w.err = fmt.Errorf("the end of operation %.80q cannot be seen: %w", name, err)
			delete(o.waiting, name)
			close(w.done)
		}
	}
}
