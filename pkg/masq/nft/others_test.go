package nft

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestOthersThatDrop(t *testing.T) {
	h := newHost(t)
	h.iptables() // where ours can stand
	h.load(`
table inet mine { chain forward { type filter hook forward priority 0; policy drop; }; }
table inet fine { chain forward { type filter hook forward priority 0; policy accept; }; chain input { type filter hook input priority 0; policy drop; }; }
table inet firewalld { chain filter_FORWARD { type filter hook forward priority 10; policy accept; reject; }; chain other { drop; }; }
table inet filter { chain forward { type filter hook forward priority 0; policy drop; }; }
table ip filter { chain forward { type filter hook forward priority 0; policy drop; }; }
table ip docker-bridges { chain filter-FORWARD { type filter hook forward priority 0; policy accept; drop; }; }
table ip6 six { chain f { type filter hook forward priority 5; policy drop; }; }
`)
	o := &Others{Tables: h.Tables}
	got, err := o.droppers()
	want := []string{"inet filter forward", "inet firewalld filter_FORWARD", "inet mine forward", "ip docker-bridges filter-FORWARD", "ip filter forward", "ip6 six f"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
	for range 2 {
		if changed, err := o.Sync(t.Context(), dual()); changed || err != nil {
			t.Error(changed, err)
		}
	}
}

func TestOthersAreHeardOf(t *testing.T) {
	h := newHost(t)
	ctx, cancel := context.WithCancel(t.Context())
	heard := make(chan bool, 100)
	var watching sync.WaitGroup
	watching.Go(func() { _ = (&Others{Tables: h.Tables}).Watch(ctx, func() { heard <- true }) })
	defer watching.Wait()
	defer cancel()
	<-heard
	for _, change := range []string{
		"table inet mine { chain forward { type filter hook forward priority 0; policy drop; }; }",
		"table inet mine { chain forward { policy accept; }; }",
		"delete table inet mine",
	} {
		h.load(change)
		select {
		case <-heard:
		case <-time.After(10 * time.Second):
			t.Fatalf("nothing is heard of %s", change)
		}
	}
}
