package etcdserver

import (
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
)

// newLogger returns the logger for etcd. It logs etcd's errors, and its warnings from
// -v=1 on, each message once a minute.
func newLogger(l *life) *zap.Logger {
	core := zapcore.NewSamplerWithOptions(&logs{life: l}, time.Minute, 1, 0)
	return zap.New(core, zap.WithPanicHook(l), zap.WithFatalHook(l))
}

// logs is a zapcore.Core that writes to klog while etcd runs. A failed start returns
// an error instead, and what fails during a stop is no error.
type logs struct {
	life   *life
	fields []zapcore.Field
}

func (l *logs) Enabled(level zapcore.Level) bool {
	return level >= zapcore.ErrorLevel || level == zapcore.WarnLevel && klog.V(1).Enabled()
}

func (l *logs) With(fields []zapcore.Field) zapcore.Core {
	return &logs{l.life, append(l.fields[:len(l.fields):len(l.fields)], fields...)}
}

func (l *logs) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if l.Enabled(e.Level) {
		return to.AddCore(e, l)
	}
	return to
}

// loggedFields are the only fields that it logs. Others may hold what clients wrote.
var loggedFields = map[string]bool{"error": true, "path": true, "address": true, "remote-addr": true, "took": true}

func (l *logs) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if !l.life.on() {
		return nil
	}
	all := zapcore.NewMapObjectEncoder()
	rest := []any{"message", e.Message}
	for _, f := range append(l.fields[:len(l.fields):len(l.fields)], fields...) {
		if loggedFields[f.Key] {
			f.AddTo(all)
			rest = append(rest, f.Key, all.Fields[f.Key])
		}
	}
	if e.Level == zapcore.WarnLevel {
		klog.V(1).InfoS("Etcd reported a warning", rest...)
	} else {
		klog.ErrorS(nil, "Etcd reported an error", rest...)
	}
	return nil
}

func (l *logs) Sync() error { return nil }
