package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

const source = "/coreos.com/network"

func config(t testing.TB, text string) subnet.Config {
	t.Helper()
	cfg, err := subnet.ParseConfig([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func lease(t testing.TB, key, value string, created int64, expires time.Time) subnet.Lease {
	t.Helper()
	l, err := subnet.ParseLease(key, []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	l.Created, l.Expires = created, expires
	return l
}

// small is a network of three nodes.
func small(t testing.TB) Snapshot {
	t.Helper()
	return Snapshot{
		Head: Head{
			Source: source,
			Config: config(t, `{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:5::/48","Backend":{"Type":"vxlan","VNI":7}}`),
			Own: lease(t, "10.5.34.0-24&fd00:5:0:22::-64",
				`{"PublicIP":"192.0.2.7","PublicIPv6":"2001:db8::7","BackendType":"vxlan","BackendData":{"VNI":7},"BackendV6Data":{"VNI":7},"Tulle":{"NodeID":"a","NodeName":"node é","MTU":1450}}`,
				12, time.Unix(1<<33, 0)),
		},
		Peers: []subnet.Lease{
			lease(t, "10.5.35.0-24", `{"PublicIP":"192.0.2.8","PublicIPv6":null,"BackendType":"vxlan","BackendData":{"VNI":7,"VtepMAC":"3a:00:00:00:00:01"}}`, 13, time.Time{}),
			lease(t, "fd00:5:0:23::-64", `{"PublicIP":"0.0.0.0","PublicIPv6":"2001:db8::9","BackendV6Data":"\u003ca b\n\u003e"}`, -1, time.Unix(-5, 7)),
		},
	}
}

func save(t testing.TB, dir string, s Snapshot) {
	t.Helper()
	if n, err := Save(dir, s.Head, slices.Values(s.Peers)); err != nil || n != len(s.Peers) {
		t.Fatalf("saved %d of %d: %v", n, len(s.Peers), err)
	}
}

// check loads dir and compares what it holds, but not when it was saved.
func check(t *testing.T, dir string, want Snapshot) {
	t.Helper()
	got, err := Load(dir, want.Source)
	if err != nil {
		t.Fatal(err)
	}
	want.Saved = got.Saved
	if len(got.Peers) != len(want.Peers) {
		t.Fatalf("%d peers, want %d", len(got.Peers), len(want.Peers))
	}
	if !reflect.DeepEqual(got.Peers, want.Peers) || got.Head != want.Head {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if head, err := LoadHead(dir, want.Source); err != nil || head != want.Head {
		t.Errorf("head %+v, %v\nwant %+v", head, err, want.Head)
	}
}

// TestFormat compares the text of a snapshot with the expected one.
func TestFormat(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lib", "tulle")
	before := time.Now().Truncate(time.Second)
	save(t, dir, small(t))
	got, err := Load(dir, source)
	if err != nil || got.Saved.Before(before) || got.Saved.After(time.Now()) {
		t.Errorf("saved at %v, %v", got.Saved, err)
	}
	text := read0(t, dir)
	want := fmt.Sprintf(`tulle-snapshot 1 %s
source "/coreos.com/network"
config {"EnableIPv4":true,"EnableIPv6":true,"Network":"10.5.0.0/16","SubnetLen":24,"SubnetMin":"10.5.1.0","SubnetMax":"10.5.255.0","IPv6Network":"fd00:5::/48","IPv6SubnetLen":64,"IPv6SubnetMin":"fd00:5:0:1::","IPv6SubnetMax":"fd00:5:0:ffff::","Backend":{"Type":"vxlan","VNI":7}}
own 10.5.34.0-24&fd00:5:0:22::-64 12 8589934592.0 {"PublicIP":"192.0.2.7","PublicIPv6":"2001:db8::7","BackendType":"vxlan","BackendData":{"VNI":7},"BackendV6Data":{"VNI":7},"Tulle":{"NodeID":"a","NodeName":"node é","MTU":1450}}
peer 10.5.35.0-24 13 - {"PublicIP":"192.0.2.8","PublicIPv6":null,"BackendType":"vxlan","BackendData":{"VNI":7,"VtepMAC":"3a:00:00:00:00:01"}}
peer fd00:5:0:23::-64 -1 -5.7 {"PublicIP":"0.0.0.0","PublicIPv6":"2001:db8::9","BackendV6Data":"\u003ca b\n\u003e"}
`, got.Saved.UTC().Format(time.RFC3339))
	want += fmt.Sprintf("end 2 %08x\n", crc32.Checksum([]byte(want), crc32.MakeTable(crc32.Castagnoli)))
	if string(text) != want {
		t.Errorf("got:\n%s\nwant:\n%s", text, want)
	}
	for path, mode := range map[string]fs.FileMode{dir: fs.ModeDir | 0o700, filepath.Join(dir, "snapshot"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
		}
	}
}

// TestFormatOfABrokenHost: one line says what is broken, and other files lack it.
func TestFormatOfABrokenHost(t *testing.T) {
	dir, s := t.TempDir(), small(t)
	s.ChecksumsBroken = true
	save(t, dir, s)
	check(t, dir, s)
	if text := string(read0(t, dir)); !strings.Contains(text, "\nbroken checksums\npeer 10.5.35.0-24 ") {
		t.Errorf("got:\n%s", text)
	}
}

func read0(t testing.TB, dir string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		s := small(t)
		s.Source = fmt.Sprintf("prefix \n\x00\" é %d", rng.Uint64())
		s.Peers = s.Peers[:0]
		for range rng.IntN(200) {
			s.Peers = append(s.Peers, randomLease(rng))
		}
		s.Own = randomLease(rng)
		s.Config.Given, s.ChecksumsBroken = rng.IntN(2) == 0, rng.IntN(2) == 0
		save(t, dir, s)
		check(t, dir, s)
	}
}

// randomLease is one as it can come from a store.
func randomLease(rng *rand.Rand) subnet.Lease {
	l := subnet.Lease{Created: rng.Int64() - rng.Int64()}
	on := 1 + rng.IntN(3)
	data := []string{"", `{"VNI":1,"VtepMAC":"3a:00:00:00:00:01"}`, `[1,"\u003c\n"]`, `"é\u2028"`}
	for f := range subnet.Families {
		if on>>f&1 == 1 {
			a := netip.AddrFrom4([4]byte{10, byte(rng.Uint32()), byte(rng.Uint32())})
			if f == 1 {
				a = netip.AddrFrom16([16]byte{0: 0xfd, 5: byte(rng.Uint32()), 7: byte(rng.Uint32())})
			}
			l.Subnets[f] = netip.PrefixFrom(a, 9+rng.IntN(16)).Masked()
			l.BackendData[f] = data[rng.IntN(len(data))]
		}
	}
	if rng.IntN(3) > 0 {
		l.PublicIP = subnet.Pair[netip.Addr]{netip.AddrFrom4([4]byte{192, 0, 2, byte(rng.Uint32())}), netip.AddrFrom16([16]byte{0: 0x20, 15: byte(rng.Uint32())})}
		l.BackendType = "vxlan"
		l.Node = subnet.Node{ID: fmt.Sprint(rng.Uint64()), Name: "node-é", MTU: rng.IntN(65536)}
	}
	switch rng.IntN(3) {
	case 0:
		l.Expires = time.Unix(rng.Int64(), rng.Int64N(1e9))
	case 1:
		l.Expires = time.Unix(1<<33, 0)
	}
	return l
}

// A peer that nothing could read again costs the others nothing.
func TestUnreadablePeerLeftOut(t *testing.T) {
	s := small(t)
	big := s.Peers[0]
	big.BackendData[subnet.IPv4] = `"` + strings.Repeat("x", 16<<10-2) + `"` // fits alone, not with the rest
	bad := s.Peers[0]
	bad.Node.Name = "a\nb"
	none := s.Peers[0]
	none.Subnets = subnet.Pair[netip.Prefix]{}
	unmasked := s.Peers[0]
	unmasked.Subnets[subnet.IPv4] = netip.MustParsePrefix("10.5.35.7/24")
	dir := t.TempDir()
	n, err := Save(dir, s.Head, slices.Values([]subnet.Lease{big, s.Peers[0], bad, none, unmasked, s.Peers[1]}))
	if n != 2 || err != nil {
		t.Errorf("saved %d, %v", n, err)
	}
	check(t, dir, s)
}

func TestSaveRefuses(t *testing.T) {
	dir := t.TempDir()
	s := small(t)
	save(t, dir, s)
	for name, change := range map[string]func(*Head){
		"no config":             func(h *Head) { h.Config = subnet.Config{} },
		"an unread config":      func(h *Head) { h.Config.Backend = subnet.Backend{Type: "host-gw"} },
		"a lease of no subnet":  func(h *Head) { h.Own.Subnets = subnet.Pair[netip.Prefix]{} },
		"a lease of no address": func(h *Head) { h.Own.PublicIP[subnet.IPv4] = netip.MustParseAddr("::1") },
	} {
		h := s.Head
		change(&h)
		if n, err := Save(dir, h, slices.Values(s.Peers)); n != 0 || err == nil {
			t.Errorf("%s: saved %d, %v", name, n, err)
		}
	}
	check(t, dir, s) // the one before stays
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v stay behind, %v", entries, err)
	}
}

func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, err := Load(dir, source); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("none: %v", err)
	}
	if _, err := LoadHead(dir, source); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("none: %v", err)
	}
	save(t, dir, small(t))
	text := string(read0(t, dir))
	if _, err := Load(dir, "/other"); !errors.Is(err, errSource) || !strings.Contains(err.Error(), "/other") {
		t.Errorf("another network: %v", err)
	}
	// sealed puts the right end on lines that were changed.
	sealed := func(old, new string) string {
		lines, _, _ := strings.Cut(strings.Replace(text, old, new, 1), "end ")
		return fmt.Sprintf("%send %d %08x\n", lines, strings.Count(lines, "\npeer "), crc32.Checksum([]byte(lines), castagnoli))
	}
	if got := sealed("", ""); got != text {
		t.Fatalf("sealed:\n%s\nwant:\n%s", got, text)
	}
	for _, c := range []struct {
		name, text string
		want       error
		says       string
		aPeer      bool // its content alone, which is nothing to the head
	}{
		{"empty", "", errCorrupt, "cut off in line 1", false},
		{"no line", "\n", errCorrupt, "line 1 does not begin with tulle-snapshot", false},
		{"zeros", strings.Repeat("\x00", 1<<20), errCorrupt, "line 1 has more than", false},
		{"later", strings.Replace(text, "snapshot 1 ", "snapshot 2 ", 1), errVersion, "version 2", false},
		{"later, of other lines", "tulle-snapshot 17\n", errVersion, "version 17", false},
		{"version 0", sealed("snapshot 1", "snapshot 0"), errCorrupt, "no version", false},
		{"no version", sealed("snapshot 1", "snapshot x"), errCorrupt, "no version", false},
		{"no time", sealed("snapshot 1 2", "snapshot 1 x"), errCorrupt, "no time", false},
		{"no source", sealed("source", "sauce"), errCorrupt, "line 2 does not begin with source", false},
		{"bad source", sealed(`source "`, `source `), errCorrupt, "line 2", false},
		{"bad config", sealed(`"SubnetLen":24`, `"SubnetLen":31`), errCorrupt, "SubnetLen is 31", false},
		{"bad key", sealed("peer 10.5.35.0-24", "peer 10.5.35.1-24"), errCorrupt, "line 5", true},
		{"bad number", sealed(" 13 ", " 13x "), errCorrupt, `"13x" is not a number`, true},
		{"bad time", sealed("-5.7", "-5"), errCorrupt, `"-5" is not a time`, true},
		{"bad value", sealed(`"192.0.2.8"`, `"192.0.2"`), errCorrupt, "not an address", true},
		{"bad own", sealed("own 10.5.34.0-24", "own 10.5.34.0-240"), errCorrupt, "line 4", false},
		{"unknown line", sealed("peer fd", "pear fd"), errCorrupt, "line 6 has an unknown kind", false},
		{"wrong count", strings.Replace(text, "end 2", "end 3", 1), errCorrupt, "its end has checksum", false},
		{"a count of many", strings.Replace(text, "end 2", "end 9000000000000000000", 1), errCorrupt, "its end has checksum", false},
		{"two in one", text + text, errCorrupt, "data after its end", false},
		{"long line", sealed("peer fd", "peer "+strings.Repeat("x", 1<<20)), errCorrupt, "line 6 has more than", false},
		{"long number", sealed(" 13 ", " "+strings.Repeat("1", 1<<15)+" "), errCorrupt, "is not a number", true},
		{"something else broken", sealed("peer 10", "broken heart\npeer 10"), errCorrupt, "line 5 has an unknown kind", false},
		{"broken twice", sealed("peer 10", "broken checksums\nbroken checksums\npeer 10"), errCorrupt, "line 6 has an unknown kind", false},
		{"broken late", sealed("peer fd", "broken checksums\npeer fd"), errCorrupt, "line 6 has an unknown kind", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(dir, "snapshot"), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := Load(dir, source)
			if !errors.Is(err, c.want) || !strings.Contains(fmt.Sprint(err), c.says) || len(err.Error()) > 600 {
				t.Errorf("got %v, want %q", err, c.says)
			}
			if !reflect.DeepEqual(s, Snapshot{}) {
				t.Errorf("and %+v", s)
			}
			head, err := LoadHead(dir, source)
			if refused := head == (Head{}) && errors.Is(err, c.want); refused == c.aPeer {
				t.Errorf("of the head: %+v, %v", head, err)
			}
		})
	}
}

// A file that was cut off anywhere, or has one byte changed anywhere, is
// refused whole.
func TestEveryDamageShows(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, small(t))
	text := read0(t, dir)
	for i := range text {
		if _, err := decode(bytes.NewReader(text[:i]), int64(i), source, true); !errors.Is(err, errCorrupt) {
			t.Errorf("cut off after %d bytes: %v", i, err)
		}
		for _, flip := range []byte{1, 0x20, 0x80} {
			damaged := bytes.Clone(text)
			damaged[i] ^= flip
			_, err := decode(bytes.NewReader(damaged), int64(len(damaged)), source, i%2 == 0)
			if !errors.Is(err, errCorrupt) && !errors.Is(err, errVersion) && !errors.Is(err, errSource) {
				t.Errorf("byte %d changed to %q: %v", i, damaged[i], err)
			}
		}
	}
}

func TestLoadOddFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "snapshot")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir, source); !errors.Is(err, errCorrupt) {
		t.Errorf("a folder: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir, source); !errors.Is(err, errCorrupt) {
		t.Errorf("a pipe: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(maxFile + 1); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir, source); !errors.Is(err, errCorrupt) {
		t.Errorf("too much: %v", err)
	}
}

// A config as long as a store takes is kept too.
func TestLongConfig(t *testing.T) {
	s := small(t)
	s.Config = config(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"extension","PreStartupCommand":"`+strings.Repeat("x", 1500<<10)+`"}}`)
	s.Own = s.Peers[0]
	dir := t.TempDir()
	save(t, dir, s)
	check(t, dir, s)
}
