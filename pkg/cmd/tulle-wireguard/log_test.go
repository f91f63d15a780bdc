package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMessagesOfOneKindAreFew repeats messages of two kinds.
func TestMessagesOfOneKindAreFew(t *testing.T) {
	now := time.Unix(1, 0)
	var logged []string
	m := newMessages(func() time.Time { return now }, func(text string, more int) { logged = append(logged, fmt.Sprint(text, more)) })
	for i := range 3 {
		m.errorf("peer %d is away", i)
		m.errorf("full")
	}
	now = now.Add(logPause)
	m.errorf("peer %d is away", 3)
	if want := []string{"peer 0 is away0", "full0", "peer 3 is away2"}; !slices.Equal(logged, want) {
		t.Errorf("logged %q, not %q", logged, want)
	}
}

func TestNoKeyIsLogged(t *testing.T) {
	for _, key := range []string{private, "6Etabdd2wQA6E7QxVwNT26ypFGzxUMX4V1aA/rpSAno=", private + private} {
		if got := withoutKeys("line \"private_key=" + key + "\", peer(mBzB…4mDw)"); strings.Contains(got, key[:32]) || !strings.HasSuffix(got, "peer(mBzB…4mDw)") {
			t.Errorf("got %s", got)
		}
	}
}
