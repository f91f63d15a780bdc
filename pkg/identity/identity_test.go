package identity

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/test/logtest"
	"github.com/tulle-net/tulle/subnet"
)

var hardware = Hardware{UUID: "4c4c4544", MACs: []string{"02:00:00:00:00:01", "02:00:00:00:00:02"}}

func options(dir string) Options {
	return Options{Dir: dir, Node: subnet.Node{ID: "machine", Name: "host"}, Fix: "a command", Hardware: hardware}
}

// twin is another machine with this machine's ID.
func twin(copied bool) *subnet.TwinError {
	return &subnet.TwinError{Copied: copied, Lease: subnet.Lease{Attrs: subnet.Attrs{
		PublicIP: subnet.Pair[netip.Addr]{netip.MustParseAddr("192.0.2.9")}, Node: subnet.Node{ID: "machine", Name: "first"},
	}}}
}

func TestIdentityLasts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	i := Open(options(dir))
	n := i.Node()
	if n.ID != "machine" || n.Name != "host" || len(n.Instance) != 16 || i.Clone() != nil {
		t.Errorf("it is %+v, a clone of %+v", n, i.Clone())
	}
	if again := Open(options(dir)); again.Node() != n || string(again.Prove([]byte("x"))) != string(i.Prove([]byte("x"))) {
		t.Errorf("the next start is %+v, after %+v", again.Node(), n)
	}
	if other := Open(options(t.TempDir())); other.Node().Instance == n.Instance || string(other.Prove([]byte("x"))) == string(i.Prove([]byte("x"))) {
		t.Error("two installations are one")
	}
	for path, mode := range map[string]os.FileMode{dir: 0o700, Path(dir): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if text, err := os.ReadFile(Path(dir)); err != nil || strings.Contains(string(text), n.Instance) {
		t.Errorf("%s, %v", text, err)
	}
}

// TestCopiedFolderIsRecognised: a folder that was copied to other hardware is recognised. A
// part of the hardware may change.
func TestCopiedFolderIsRecognised(t *testing.T) {
	for name, c := range map[string]struct {
		found Hardware
		same  bool
	}{
		"the same":                  {hardware, true},
		"an interface more":         {Hardware{hardware.UUID, []string{"02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:03"}}, true},
		"an interface less":         {Hardware{hardware.UUID, []string{"02:00:00:00:00:02"}}, true},
		"no UUID to be read":        {Hardware{"", hardware.MACs}, true},
		"nothing to be read":        {Hardware{}, true},
		"another UUID":              {Hardware{"77", hardware.MACs}, false},
		"other interfaces":          {Hardware{hardware.UUID, []string{"02:00:00:00:00:07"}}, false},
		"other interfaces, no UUID": {Hardware{"", []string{"02:00:00:00:00:07"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			log := logtest.Capture(t, 0)
			dir := t.TempDir()
			first := Open(options(dir)).Node()
			o := options(dir)
			o.Hardware = c.found
			second := Open(o).Node()
			if (second == first) != c.same || (log.Count("was copied from another machine") == 0) != c.same {
				t.Errorf("it was %+v and is %+v, and says %s", first, second, log)
			}
			if again := Open(o).Node(); again != second {
				t.Errorf("the next start is %+v, after %+v", again, second)
			}
		})
	}
}

func TestForkLastsUntilTheMachineHasItsOwnID(t *testing.T) {
	for _, copied := range []bool{false, true} {
		log := logtest.Capture(t, 0)
		dir := t.TempDir()
		i := Open(options(dir))
		before, proof := i.Node(), string(i.Prove([]byte("x")))
		forked := i.Fork(twin(copied), subnet.Attrs{})
		if subnet.SharedID(forked.ID) != "machine" || forked.ID == "machine" || forked != i.Node() {
			t.Errorf("its ID is %s", forked.ID)
		}
		if fresh := forked.Instance != before.Instance && string(i.Prove([]byte("x"))) != proof; fresh != copied {
			t.Errorf("copied %t: the secret is another: %t", copied, fresh)
		}
		if log.Count("Another machine has this machine's ID") != 1 || !strings.Contains(log.String(), `other="first (192.0.2.9)"`) || !strings.Contains(log.String(), `fix="a command"`) {
			t.Errorf("it says %s", log)
		}
		again := Open(options(dir))
		if c := again.Clone(); again.Node() != forked || c == nil || c.Of != "machine" || c.Name != "first" || len(c.Addresses) != 1 || c.Since.IsZero() {
			t.Errorf("the next start is %+v, a clone of %+v", again.Node(), c)
		}
		if again.Clone() == i.Clone() {
			t.Error("what is returned of a clone can be changed")
		}
		// A second Fork makes another ID.
		if third := again.Fork(twin(false), subnet.Attrs{}); third.ID == forked.ID || subnet.SharedID(third.ID) != "machine" {
			t.Errorf("its ID is %s, and was %s", third.ID, forked.ID)
		}
		o := options(dir)
		o.Node.ID = "another"
		for range 2 {
			if own := Open(o); own.Node() != (subnet.Node{ID: "another", Name: "host", Instance: again.Node().Instance}) || own.Clone() != nil {
				t.Errorf("with another ID it is %+v, a clone of %+v", own.Node(), own.Clone())
			}
		}
		if n := log.Count("Another machine has"); n != 2 {
			t.Errorf("it warned %d times", n)
		}
	}
}

// TestForkOfALongIDFits: an ID without room for a suffix is replaced by its digest.
func TestForkOfALongIDFits(t *testing.T) {
	o := options(t.TempDir())
	o.Node.ID = strings.Repeat("a", subnet.MaxSharedID+1)
	n := Open(o).Fork(twin(false), subnet.Attrs{})
	if err := (subnet.Attrs{Node: n}).Validate(); err != nil || subnet.SharedID(n.ID) == n.ID {
		t.Errorf("%s: %v", n.ID, err)
	}
	if again := Open(o).Node(); again != n {
		t.Errorf("the next start is %+v", again)
	}
}

// TestHardwareIdentifiesWithoutAFolder: without a writable folder, the hardware identifies
// the machine.
func TestHardwareIdentifiesWithoutAFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", filepath.Join(file, "state")} {
		log := logtest.Capture(t, 0)
		first, second := Open(options(dir)).Node(), Open(options(dir)).Node()
		other := options(dir)
		other.Hardware.MACs = []string{"02:00:00:00:00:09"}
		if third := Open(other).Node(); first != second || third.Instance == first.Instance {
			t.Errorf("%q: %+v, %+v, and on other hardware %+v", dir, first, second, third)
		}
		if failed := log.Count("Failed to save this node's identity"); (dir == "") != (failed == 0) {
			t.Errorf("%q: it says %s", dir, log)
		}
		i := Open(options(dir))
		before := i.Node()
		if forked := i.Fork(twin(true), subnet.Attrs{}); forked.Instance == before.Instance || forked.ID == before.ID {
			t.Errorf("%q: it forked to %+v", dir, forked)
		}
	}
}

// TestInvalidFileIsReplaced checks that an invalid file is replaced, and that no error
// quotes its content.
func TestInvalidFileIsReplaced(t *testing.T) {
	const good = `{"version":1,"secret":"00112233445566778899aabbccddeeff","hardware":{"macs":["02:00:00:00:00:01"]}`
	for name, text := range map[string]string{
		"nothing":             "",
		"no JSON":             "00112233445566778899aabbccddeeff",
		"cut off":             good,
		"of a later version":  strings.Replace(good, ":1", ":2", 1) + "}",
		"no secret":           `{"version":1}`,
		"a short secret":      `{"version":1,"secret":"00"}`,
		"no hex":              `{"version":1,"secret":"zz112233445566778899aabbccddeeff"}`,
		"zeros":               `{"version":1,"secret":"00000000000000000000000000000000"}`,
		"no MAC":              `{"version":1,"secret":"00112233445566778899aabbccddeeff","hardware":{"macs":["x"]}}`,
		"a huge UUID":         `{"version":1,"secret":"00112233445566778899aabbccddeeff","hardware":{"uuid":"` + strings.Repeat("a", 101) + `"}}`,
		"an unprintable UUID": `{"version":1,"secret":"00112233445566778899aabbccddeeff","hardware":{"uuid":"a\u0007"}}`,
		"an unprintable name": good + `,"clone":{"of":"machine","name":"a\u0007"}}`,
		"a clone of nothing":  good + `,"clone":{}}`,
		"too many addresses":  good + `,"clone":{"of":"machine","addresses":["192.0.2.1","192.0.2.2","192.0.2.3"]}}`,
		"huge":                good + `,"x":"` + strings.Repeat("x", mostFile) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			log := logtest.Capture(t, 0)
			dir := t.TempDir()
			if err := os.WriteFile(Path(dir), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			first := Open(options(dir))
			if second := Open(options(dir)); second.Node() != first.Node() {
				t.Errorf("it is %+v, and then %+v", first.Node(), second.Node())
			}
			if log.Count("Ignoring the invalid identity") != 1 || strings.Contains(log.String(), "112233445566") {
				t.Errorf("it says %s", log)
			}
		})
	}
	// A secret that other users can read is not used.
	dir := t.TempDir()
	first := Open(options(dir)).Node()
	if err := os.Chmod(Path(dir), 0o644); err != nil {
		t.Fatal(err)
	}
	if second := Open(options(dir)).Node(); second.Instance == first.Instance {
		t.Error("a secret that others could read is used")
	}
}

// FuzzParse checks that every accepted identity is valid, and that no error quotes
// the secret.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"version":1,"secret":"00112233445566778899aabbccddeeff","hardware":{"uuid":"4c","macs":["02:00:00:00:00:01"]},"clone":{"of":"machine","name":"a","addresses":["192.0.2.1"],"since":"2026-01-01T00:00:00Z"}}`))
	f.Add([]byte(`{"version":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parse(text)
		if err != nil {
			return
		}
		if s, err := c.secret(); err != nil || s == (secret{}) {
			t.Fatalf("%q has the secret %x, %v", text, s, err)
		}
		i := &Identity{options: options(""), clone: c.Clone}
		if err := (subnet.Attrs{Node: i.Node()}).Validate(); err != nil {
			t.Fatalf("%q makes a node that cannot be published: %v", text, err)
		}
	})
}
