package main

import (
	"fmt"
	"regexp"
	"sync"
	"time"

	"golang.zx2c4.com/wireguard/device"
	"k8s.io/klog/v2"
)

// logPause is the time after which a message of one kind is logged again. A peer that
// cannot be reached causes one every few seconds.
const logPause = time.Minute

// messages logs the errors of a device.
type messages struct {
	now func() time.Time
	log func(text string, more int)

	mu    sync.Mutex
	kinds map[string]*kind // by their format
}

// kind is a kind of message.
type kind struct {
	logged     time.Time
	suppressed int
}

// newLogger returns the log of a device.
func newLogger(link string) *device.Logger {
	m := newMessages(time.Now, func(text string, more int) {
		klog.ErrorS(nil, "WireGuard reported an error", "link", link, "error", text, "suppressed", more)
	})
	return &device.Logger{Verbosef: device.DiscardLogf, Errorf: m.errorf}
}

func newMessages(now func() time.Time, log func(string, int)) *messages {
	return &messages{now: now, log: log, kinds: make(map[string]*kind)}
}

// errorf logs an error. The formats are few: they are texts of the library.
func (m *messages) errorf(format string, args ...any) {
	m.mu.Lock()
	k := m.kinds[format]
	if k == nil {
		k = &kind{}
		m.kinds[format] = k
	}
	now := m.now()
	if !k.logged.IsZero() && now.Sub(k.logged) < logPause {
		k.suppressed++
		m.mu.Unlock()
		return
	}
	more := k.suppressed
	k.logged, k.suppressed = now, 0
	m.mu.Unlock()
	m.log(withoutKeys(fmt.Sprintf(format, args...)), more)
}

// key is the text of a whole key, in hex or in base64. Such a message quotes an invalid
// request, which may have a private key.
var key = regexp.MustCompile(`[0-9A-Za-z+/=]{32,}`)

func withoutKeys(text string) string { return key.ReplaceAllString(text, "(hidden)") }
