package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// PrepareName is the config's key of the command that prepares this host.
const PrepareName = "PreStartupCommand"

// MostOutput is the size limit of what that command may print. A lease has room for twice
// as much.
const MostOutput = 8 << 10

// mostQuoted is the size limit of the output as JSON, where one byte may take six.
const mostQuoted = 12 << 10

// preparation is the command that prepares this host, whose output its peers get.
type preparation struct {
	text     string
	limit    time.Duration
	asked    bool
	done     bool
	output   string
	failures int
	err      error
	next     time.Time
}

// Prepare returns the output of the command that prepares this host. The first call with
// a text lets it run, once; until it has ended well, the error is or wraps
// netstate.ErrUnfinished, and netstate.ErrRepeated after a failure. An empty text is no command:
// none is tried any more.
func (r *Runner) Prepare(text string, limit time.Duration) (output string, err error) {
	if r.Refused != nil {
		return "", r.Refused
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.prepare
	if text == "" {
		*p = preparation{}
		return "", nil
	}
	if !p.asked || p.text != text {
		*p = preparation{asked: true, text: text}
	}
	p.limit = limit
	switch {
	case p.done:
		return p.output, nil
	case p.err != nil:
		return "", fmt.Errorf("%s: %w; %w", PrepareName, p.err, netstate.ErrRepeated)
	}
	r.wake.Wake()
	return "", fmt.Errorf("%s: %w", PrepareName, netstate.ErrUnfinished)
}

// prepareNow returns the preparation that is due.
func (r *Runner) prepareNow(now time.Time) (p preparation, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p = r.prepare
	due = p.asked && !p.done && !p.next.After(now)
	if due {
		r.stats.begin(netstate.Key{Kind: netstate.KindCommand, Name: PrepareName}, now)
	}
	return p, due
}

// runPreparation runs the command that prepares this host. What was run before depends on
// it, and is run again.
func (r *Runner) runPreparation(ctx context.Context, p preparation) {
	o := r.start(ctx, process{text: p.text, env: r.Env, limit: p.limit, most: MostOutput})
	if ctx.Err() != nil {
		return
	}
	output := strings.TrimSpace(o.output)
	if o.err == nil {
		o.err = checkOutput(output, o.excess)
	}
	r.count(PrepareName, o)
	r.mu.Lock()
	r.stats.running = ""
	now := &r.prepare
	if now.text == p.text {
		now.done, now.output, now.err = o.err == nil, output, o.err
		if o.err != nil {
			now.failures++
			now.next = time.Now().Add(backoff.After(now.failures))
		}
	}
	r.spoil(netstate.Key{})
	r.mu.Unlock()
	if o.err == nil {
		klog.V(1).InfoS("Ran a command", "command", PrepareName, "took", o.took, "published", len(output))
	}
	r.Prepared()
}

// checkOutput returns why a lease has no room for an output, of which there may be more.
func checkOutput(output string, more bool) error {
	if more {
		return fmt.Errorf("it printed more than the %d bytes that a node may publish", MostOutput)
	}
	quoted, err := json.Marshal(output)
	if err == nil && len(quoted) > mostQuoted {
		err = fmt.Errorf("its output takes %d bytes as JSON, and a node may publish %d: print fewer characters that JSON escapes", len(quoted), mostQuoted)
	}
	return err
}
