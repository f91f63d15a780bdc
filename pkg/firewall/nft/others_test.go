package nft

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/firewall"
)

func TestOthersThatDrop(t *testing.T) {
	h := newHost(t)
	h.iptables() // where ours can be
	h.load(`
table inet mine { chain forward { type filter hook forward priority 0; policy drop; }; }
table inet fine { chain forward { type filter hook forward priority 0; policy accept; }; chain input { type filter hook input priority 0; policy drop; }; }
table inet known { chain forward { type filter hook forward priority 0; policy drop; ip saddr 10.5.0.0/16 accept; ip6 saddr fd00:5::/48 accept; }; }
table inet named { chain forward { type filter hook forward priority 0; policy drop; iifname { "cni0", "tulle.1" } counter; iifname "cni*" accept; iifname "tulle.1" accept; }; }
table inet half { chain forward { type filter hook forward priority 0; policy drop; iifname "cni0" accept; ip6 saddr fd00:5::/48 accept; }; }
table inet firewalld { chain filter_FORWARD { type filter hook forward priority 10; policy accept; ct state established accept; jump zones; reject with icmpx admin-prohibited; }
	chain zones { iifname "eth0" goto public; ip saddr 10.5.0.0/16 goto trusted; goto public; }; chain public { tcp dport 22 accept; reject; }; chain trusted { accept; }; chain other { drop; }; }
table inet filter { chain forward { type filter hook forward priority 0; policy drop; }; }
table ip filter { chain forward { type filter hook forward priority 0; policy drop; }; }
table ip docker-bridges { chain filter-FORWARD { type filter hook forward priority 0; policy accept; drop; }; }
table ip6 six { chain f { type filter hook forward priority 5; policy drop; }; }
`)
	o := &Others{Tables: h.Tables, Unforwarded: "--bare"}
	const four, six = "10.5.0.0/16", "fd00:5::/48"
	droppers := [][3]string{
		{"inet filter forward", four + " and " + six, "accept them there"},
		{"inet firewalld filter_FORWARD", six, "firewall-cmd --permanent --zone=trusted --add-source=fd00:5::/48 && firewall-cmd --reload"},
		{"inet half forward", four, "accept them there"},
		{"inet mine forward", four + " and " + six, "accept them there"},
		{"ip docker-bridges filter-FORWARD", four, "--firewall-backend=iptables"},
		{"ip filter forward", four, "accept them there"},
		{"ip6 six f", six, "accept them there"},
	}
	check(t, o, dual(), droppers)
	// If our accepts must not precede theirs, iptables' chains are like any others.
	bare := dual()
	bare.Forward = false
	droppers = append(droppers, [3]string{"ip filter FORWARD", four, "restart the daemon without --bare, or accept them there"}, [3]string{"ip6 filter FORWARD", six, "restart the daemon without --bare, or accept them there"})
	slices.SortFunc(droppers, func(a, b [3]string) int { return strings.Compare(a[0], b[0]) })
	check(t, o, bare, droppers)
}

// check compares the reports: the chain, the networks, and the fix.
func check(t *testing.T, o *Others, r firewall.Rules, want [][3]string) {
	t.Helper()
	for range 2 {
		if changed, err := o.Sync(t.Context(), r); changed || err != nil {
			t.Error(changed, err)
		}
	}
	got := slices.Sorted(slices.Values(o.Tell()))
	if len(got) != len(want) {
		t.Errorf("got %q", got)
	}
	for i, w := range want {
		if i >= len(got) || !strings.HasPrefix(got[i], "the chain "+w[0]+" drops packets ") || !strings.Contains(got[i], " in "+w[1]+";") && !strings.Contains(got[i], " from and to "+w[1]+";") || !strings.HasSuffix(got[i], w[2]) {
			t.Errorf("got %q, want %q", got[min(i, len(got)-1):], w)
		}
	}
}

// TestOthersThatDropDirectAccess checks the rules of Docker 28 and 29 in the table
// raw, which let packets reach a container only from its bridge.
func TestOthersThatDropDirectAccess(t *testing.T) {
	for _, c := range []struct {
		name  string
		rules []string
		want  [][3]string
	}{
		{"by address", []string{
			"iptables-nft -t raw -A PREROUTING -d 10.5.3.2/32 ! -i docker0 -j DROP",
			"iptables-nft -t raw -A PREROUTING -d 172.18.0.2/32 ! -i br-6a0c8a4d1f5e -j DROP",
			"ip6tables-nft -t raw -A PREROUTING -d fd00:5:0:3::2/128 ! -i docker0 -j DROP",
		}, [][3]string{{"ip raw PREROUTING", "10.5.3.0/24", "--allow-direct-routing (Docker 28.2 and later)"}, {"ip6 raw PREROUTING", "fd00:5:0:3::/64", "--allow-direct-routing (Docker 28.2 and later)"}}},
		{"by port", []string{"iptables-nft -t raw -A PREROUTING -p tcp -d 10.5.3.2 --dport 80 ! -i docker0 -j DROP"},
			[][3]string{{"ip raw PREROUTING", "10.5.3.0/24", "--allow-direct-routing (Docker 28.2 and later)"}}},
		{"of other networks, and to other ends", []string{
			"iptables-nft -t raw -A PREROUTING -d 172.17.0.2/32 ! -i docker0 -j DROP",
			"iptables-nft -t raw -A PREROUTING -d 127.0.0.1/32 ! -i lo -p tcp --dport 80 -j DROP",
			"iptables-nft -t raw -A PREROUTING -d 10.5.3.2/32 -i eth0 -j DROP",
			"iptables-nft -t raw -A PREROUTING -d 10.0.0.0/8 ! -i eth0 -j DROP",
			"iptables-nft -t raw -A PREROUTING -d 10.5.3.2/32 ! -i docker0 -j ACCEPT",
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t)
			for _, rule := range c.rules {
				h.run(rule)
			}
			check(t, &Others{Tables: h.Tables}, dual(), c.want)
		})
	}
}

func TestWatchReportsForeignChanges(t *testing.T) {
	h := newHost(t)
	ctx, cancel := context.WithCancel(t.Context())
	heard := make(chan bool, 100)
	var watching sync.WaitGroup
	o := &Others{Tables: h.Tables}
	watching.Go(func() { _ = o.Watch(ctx, func() { heard <- true }) })
	defer watching.Wait()
	defer cancel()
	<-heard
	for _, change := range []string{
		"table inet mine { chain forward { type filter hook forward priority 0; policy drop; }; }",
		"add rule inet mine forward accept",
		"table inet mine { chain forward { policy accept; }; }",
		"table ip raw { chain PREROUTING { type filter hook prerouting priority raw; }; }; add rule ip raw PREROUTING ip daddr 10.5.3.2 iifname != docker0 drop",
		"delete table inet mine",
	} {
		h.load(change)
		if _, err := o.Sync(ctx, dual()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-heard:
		case <-time.After(10 * time.Second):
			t.Fatalf("nothing is heard of %s", change)
		}
	}
}
