package labtest

import (
	"context"
	"strings"

	"github.com/tulle-net/tulle/pkg/controller"
)

func (l *Lab) record(_ context.Context, e controller.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
	return nil
}

// Event returns the texts of an object's events for a reason, a line each.
func (l *Lab) Event(name, reason string) string {
	return l.texts(func(e controller.Event) bool { return e.Object.Name == name && e.Reason == reason })
}

func (l *Lab) texts(of func(controller.Event) bool) (texts string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		if of(e) {
			texts += e.Message + "\n"
		}
	}
	return texts
}

// WantEvent fails unless an object's events for a reason contain all parts.
func (l *Lab) WantEvent(name, reason string, parts ...string) {
	l.Helper()
	l.contains(name, reason, l.Event(name, reason), parts)
}

// WantWarning fails unless an object's warnings for a reason contain all parts.
func (l *Lab) WantWarning(name, reason string, parts ...string) {
	l.Helper()
	l.contains(name, reason, l.texts(func(e controller.Event) bool {
		return e.Object.Name == name && e.Reason == reason && e.Warning
	}), parts)
}

func (l *Lab) contains(name, reason, text string, parts []string) {
	l.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			l.Errorf("%s: %s is %q and lacks %q", name, reason, text, p)
		}
	}
}
