package wireguard

import (
	"context"
	"time"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/retry"
)

// answerLimit is how long a program may take to answer.
const answerLimit = 5 * time.Second

// ask sends a request to the link's program, and passes each line of the answer to visit.
// After a program did not answer in time, all requests fail at once until it answers again:
// one that is stopped must not stop the loop, which heals everything else.
func (e *Engine) ask(ctx context.Context, l *link, r *request, visit func(key string, value []byte)) error {
	if err := l.silent(); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	err := r.send(limited, l.settings.Socket(), visit)
	if timedOut(err) && ctx.Err() == nil {
		l.silenced(err, func() { e.report(l) })
	}
	return err
}

// silent returns why requests fail at once, or nil.
func (l *link) silent() error {
	l.asking.Lock()
	defer l.asking.Unlock()
	return l.silence
}

// silenced makes all requests fail with an error until the program answers or ends, and then
// calls back.
func (l *link) silenced(err error, back func()) {
	l.asking.Lock()
	defer l.asking.Unlock()
	if l.silence != nil || l.ctx.Err() != nil {
		return
	}
	l.silence = err
	l.running.Go(func() {
		l.awaitAnswer()
		l.asking.Lock()
		l.silence = nil
		l.asking.Unlock()
		if l.ctx.Err() == nil {
			back()
		}
	})
}

// awaitAnswer waits until the program answers or ends. It asks once: a program that is stopped
// keeps each connection until it goes on, and can keep only so many.
func (l *link) awaitAnswer() {
	const often = time.Second
	for {
		r := getRequest()
		if !timedOut(r.send(l.ctx, l.settings.Socket(), nil)) || retry.Sleep(l.ctx, often) != nil {
			return
		}
	}
}

// stop ends what follows the program, and waits for it.
func (l *link) stop() {
	l.asking.Lock()
	l.cancel()
	l.asking.Unlock()
	l.running.Wait()
}

// read reads the device of the link's program, and passes each peer to visit, if that is not
// nil.
func (e *Engine) read(ctx context.Context, l *link, visit func(peer)) (is netstate.WireGuard, err error) {
	d := decoder{visit: visit}
	if err := e.ask(ctx, l, getRequest(), d.line); err != nil {
		return netstate.WireGuard{}, err
	}
	d.end()
	return d.is, nil
}
