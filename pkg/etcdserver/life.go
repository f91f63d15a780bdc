package etcdserver

import (
	"fmt"
	"runtime"
	"sync"

	"go.uber.org/zap/zapcore"
)

// life is the stage of an etcd's life. An etcd that cannot go on panics or exits, in
// any goroutine. During the start only that goroutine ends, and the start fails.
// During the stop only that goroutine ends, too: the data are on disk. In between
// life panics.
type life struct {
	mu    sync.Mutex
	stage stage
	why   string
	over  chan struct{} // closed when the start has failed
}

type stage int

const (
	starting stage = iota
	running
	stopping
)

func newLife() *life { return &life{over: make(chan struct{})} }

func (l *life) begin() { l.enter(running) }
func (l *life) end()   { l.enter(stopping) }

func (l *life) enter(s stage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stage = s
}

func (l *life) on() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stage == running
}

// fail records why the start failed. It reports whether the process can go on.
func (l *life) fail(why string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stage == starting && l.why == "" {
		l.why = why
		close(l.over)
	}
	return l.stage != running
}

// recover fails the start after a panic. The goroutine that starts etcd defers it.
func (l *life) recover() {
	if p := recover(); p != nil {
		why := fmt.Sprint(p)
		if _, unchecked := p.(runtime.Error); unchecked {
			why = "etcd crashed while reading them: " + why
		}
		l.fail(why)
	}
}

// OnWrite implements zapcore.CheckWriteHook, for the message before a panic or exit.
func (l *life) OnWrite(e *zapcore.CheckedEntry, fields []zapcore.Field) {
	why := e.Message
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok {
			why += ": " + err.Error()
		}
	}
	if !l.fail(why) {
		panic("etcd: " + why)
	}
	runtime.Goexit()
}
