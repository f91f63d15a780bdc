package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"reflect"
	"slices"
	"testing"
)

// Whatever stands in the file, it is refused or reads the same once it is
// saved again.
func FuzzLoad(f *testing.F) {
	dir := f.TempDir()
	save(f, dir, small(f))
	text := read0(f, dir)
	f.Add(text, false)
	f.Add(bytes.Replace(text[:bytes.LastIndex(text, []byte("end "))], []byte("\npeer "), []byte("\nbroken checksums\npeer "), 1), true)
	f.Add(text[:bytes.LastIndex(text, []byte("end "))], true)
	f.Add([]byte("tulle-snapshot 1 2026-11-21T17:45:00Z\nsource \"/coreos.com/network\"\nconfig {\"Network\":\"10.5.0.0/16\"}\nown 10.5.1.0-24 0 - {}\npeer 10.5.2.0-24 0 1.000 {}\n"), true)
	f.Add([]byte("tulle-snapshot 1 2026-11-21T17:45:00Z\nsource \"/coreos.com/network\"\nconfig {\"Network\":\"10.5.0.0/16\"}\nown 10.5.1.0-24 0 - {}\nend \n"), false)
	f.Fuzz(func(t *testing.T, text []byte, seal bool) {
		if seal {
			text = fmt.Appendf(bytes.Clone(text), "end %d %08x\n", bytes.Count(text, []byte("\npeer ")), crc32.Checksum(text, castagnoli))
		}
		s, err := decode(bytes.NewReader(text), int64(len(text)), source, true)
		if err != nil {
			if !errors.Is(err, errCorrupt) && !errors.Is(err, errVersion) && !errors.Is(err, errSource) {
				t.Fatalf("another error: %v", err)
			}
			if !reflect.DeepEqual(s, Snapshot{}) {
				t.Fatalf("%v, and %+v", err, s)
			}
			return
		}
		dir := t.TempDir()
		n, err := Save(dir, s.Head, slices.Values(s.Peers))
		if err != nil {
			// What is escaped takes more room than before.
			return
		}
		again, err := Load(dir, source)
		s.Saved = again.Saved // Save sets it
		if err != nil || again.Head != s.Head || len(again.Peers) != n || n == len(s.Peers) && !slices.Equal(again.Peers, s.Peers) {
			t.Fatalf("got  %+v, %v\nwant %+v", again, err, s)
		}
	})
}
