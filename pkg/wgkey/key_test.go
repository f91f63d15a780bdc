package wgkey

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/test/logtest"
)

// The first pair of keys of RFC 7748, section 6.1, of which WireGuard stores the private
// one with some bits set.
const (
	alice       = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo="
	aliceStored = "cAdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LGo="
	alicePublic = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="
	bob         = "XasIfmJKikt54X+Lg4AO5m87sSkmGLb9HC+LJ/+I4Os="
)

// stored returns the private key as WireGuard stores it.
func stored(k Private) string {
	secret := k.secret.bytes()
	return base64.StdEncoding.EncodeToString(secret[:])
}

func TestParsePrivate(t *testing.T) {
	k, err := ParsePrivate(alice)
	if err != nil || k.Public().String() != alicePublic || stored(k) != aliceStored {
		t.Errorf("got %s, %v", k, err)
	}
	zeros := base64.StdEncoding.EncodeToString(make([]byte, 32))
	for _, text := range []string{"", zeros, alice[:43], alice + "\n", alice + alice, "-" + alice[1:], strings.Repeat("A", 42) + "=="} {
		if k, err := ParsePrivate(text); err == nil || !k.IsZero() {
			t.Errorf("%q is %s", text, k)
		} else if text != "" && strings.Contains(err.Error(), text[:10]) {
			t.Errorf("the error quotes the key: %v", err)
		}
	}
	if one, other := New(), New(); one == other {
		t.Error("two new keys are the same")
	}
}

func FuzzParsePrivate(f *testing.F) {
	f.Add(alice)
	f.Fuzz(func(t *testing.T, text string) {
		k, err := ParsePrivate(text)
		if err != nil {
			return
		}
		again, err := ParsePrivate(stored(k))
		if err != nil || again != k {
			t.Errorf("%s is read as %s, %v", k, again, err)
		}
	})
}

// TestNoTextHasTheSecret prints keys in every way in which code could print them by
// mistake.
func TestNoTextHasTheSecret(t *testing.T) {
	k, err := ParsePrivate(alice)
	if err != nil {
		t.Fatal(err)
	}
	r := &Ring{}
	r.Add(k)
	if _, err := r.AddPSK(alice); err != nil {
		t.Fatal(err)
	}
	marshalled, err := json.Marshal([]any{k, &k, r})
	if err != nil {
		t.Fatal(err)
	}
	keys := Keys{Current: k, Successor: k, Step: Return}
	store := NewStore("", "", "node")
	store.set("one", keys)
	within := struct { // fmt does not call methods of unexported fields
		key  Private
		ring *Ring
		keys map[string]Private
		psk  map[netstate.PSK]hidden
		all  []any
	}{k, r, map[string]Private{"k": k}, r.psk, []any{keys, &keys, store, keys.State()}}
	text := fmt.Sprintf("%v %+v %#v %s %q %v %v %v %#v %+v %s", k, k, k, k, k, &k, []Private{k}, r, r, r, marshalled)
	text += fmt.Sprintf("%v %+v %#v %v %+v %#v", keys, keys, keys, store, store, store)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X"} {
		text += fmt.Sprintf(verb+verb+verb+verb, k, r, within, &within)
	}
	for _, secret := range []string{alice, aliceStored, "112 7 109", "119 7 109", "0x70, 0x7", "0x77, 0x7", "70076d", "77076d", "70 07 6d", "p\a", "p\x07", "w\a"} {
		if strings.Contains(text, secret) {
			t.Errorf("a text has the secret as %s:\n%s", secret, text)
		}
	}
}

func TestRing(t *testing.T) {
	r := &Ring{}
	k := New()
	if got := r.Add(k); got != k.Public() {
		t.Errorf("added %s", got)
	}
	ref, err := r.AddPSK(alice)
	if err != nil || ref == 0 {
		t.Errorf("got %d, %v", ref, err)
	}
	if got, ok := r.PrivateKey(k.Public()); !ok || got != k.secret.bytes() {
		t.Error("the private key is not there")
	}
	if got, ok := r.PSK(ref); !ok || base64.StdEncoding.EncodeToString(got[:]) != alice {
		t.Error("the preshared key is not there, or is changed")
	}
	r.Add(Private{})
	if _, ok := r.PrivateKey(netstate.PublicKey{}); ok {
		t.Error("no key has a private key")
	}
	if _, ok := r.PSK(ref + 1); ok {
		t.Error("an unknown reference has a key")
	}
	if _, err := r.AddPSK("short"); err == nil || strings.Contains(err.Error(), "short") {
		t.Errorf("got %v", err)
	}
}

// open opens the key of instance "one" in dir.
func open(t *testing.T, dir string, predecessors ...string) Private {
	t.Helper()
	k, err := Open(Path(dir), "one", predecessors...)
	if err != nil {
		t.Fatal(err)
	}
	return k.Current
}

func TestKeyLasts(t *testing.T) {
	logs := logtest.Capture(t, 0)
	dir := filepath.Join(t.TempDir(), "state")
	k := open(t, dir)
	info, err := os.Stat(Path(dir))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(Path(dir), 0o644); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "wgkey")
	if err := os.WriteFile(other, []byte(alice), 0o400); err != nil {
		t.Fatal(err)
	}
	if again := open(t, dir, other); again != k {
		t.Errorf("the second time it is %s, not %s", again, k)
	}
	if info, err := os.Stat(Path(dir)); err != nil || info.Mode() != 0o600 {
		t.Errorf("others may still read the file: %v, %v", info.Mode(), err)
	}
	if text := logs.String(); strings.Count(text, "open to other users") != 1 || !strings.Contains(text, "-rw-r--r--") {
		t.Errorf("logged %s", text)
	}
	// A copy of the machine makes a key of its own, and keeps it.
	copied, err := Open(Path(dir), "two")
	if err != nil || copied.Current == k {
		t.Errorf("a copy has %v, %v", copied, err)
	}
	if again, err := Open(Path(dir), "two"); err != nil || again.Current != copied.Current {
		t.Errorf("the copy then has %v, %v", again, err)
	}
}

func TestPredecessorsKeyIsTakenOver(t *testing.T) {
	logs := logtest.Capture(t, 0)
	dir := t.TempDir()
	missing, garbage, theirs := filepath.Join(dir, "missing"), filepath.Join(dir, "garbage"), filepath.Join(dir, "theirs")
	for path, text := range map[string]string{garbage: "secretgarbage", theirs: alice + "\n"} {
		if err := os.WriteFile(path, []byte(text), 0o400); err != nil {
			t.Fatal(err)
		}
	}
	k := open(t, filepath.Join(dir, "state"), missing, garbage, theirs)
	if k.Public().String() != alicePublic {
		t.Errorf("got %s", k)
	}
	if text := logs.String(); !strings.Contains(text, "Took over a WireGuard key") || strings.Contains(text, "secretgarbage") || strings.Contains(text, alice) {
		t.Errorf("logged %s", text)
	}
	if err := os.Remove(theirs); err != nil {
		t.Fatal(err)
	}
	if again := open(t, filepath.Join(dir, "state"), theirs); again != k {
		t.Errorf("it did not keep the key: %s", again)
	}
}

// TestUnusableFileIsKept checks that an invalid file is not replaced, because the peers
// know the key that it had.
func TestUnusableFileIsKept(t *testing.T) {
	logtest.Capture(t, 0)
	valid := `{"version":1,"instance":"one","private_key":"` + alice + `"}`
	for name, text := range map[string]string{
		"empty": "", "text": alice, "version": strings.Replace(valid, "1", "2", 1), "no key": `{"version":1,"instance":"one"}`,
		"step":         strings.Replace(valid, "}", `,"rotation":{"step":"none","private_key":"`+bob+`"}}`, 1),
		"itself":       strings.Replace(valid, "}", `,"rotation":{"step":"move","private_key":"`+alice+`"}}`, 1),
		"no successor": strings.Replace(valid, "}", `,"rotation":{"step":"move"}}`, 1),
		"half":         valid[:len(valid)-10], "short": strings.Replace(valid, alice, alice[:40], 1), "large": valid + strings.Repeat(" ", mostFile),
	} {
		path := Path(t.TempDir())
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		k, err := Open(path, "one")
		if err == nil || k != (Keys{}) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), alice[:20]) {
			t.Errorf("%s: got %v, %v", name, k, err)
		}
		if kept, err := os.ReadFile(path); err != nil || string(kept) != text {
			t.Errorf("%s: the file has %q now, %v", name, kept, err)
		}
	}
	path := Path(t.TempDir())
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, "one"); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a pipe: %v", err)
	}
	notThere := filepath.Join(path, "below a file")
	if _, err := Open(notThere, "one"); err == nil || os.IsNotExist(err) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
}
