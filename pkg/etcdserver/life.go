package etcdserver

import (
	"fmt"
	"runtime"
	"sync"

	"go.uber.org/zap/zapcore"
)

// life is the part of its life that an etcd is in. Where etcd cannot go on it
// panics or ends the process, in whatever goroutine. While it starts, that
// goroutine alone ends, and the start fails. While it stops, that goroutine alone
// ends, too: its data are on disk. In between there is nothing better than to
// panic.
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

// recover is deferred where etcd is started.
func (l *life) recover() {
	if p := recover(); p != nil {
		why := fmt.Sprint(p)
		if _, unchecked := p.(runtime.Error); unchecked {
			why = "etcd broke on reading them: " + why
		}
		l.fail(why)
	}
}

// OnWrite implements zapcore.CheckWriteHook, for what is logged last.
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
