package snapshot

import (
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"iter"
	"os"
	"strconv"
	"time"

	"github.com/tulle-net/tulle/pkg/keepfile"
	"github.com/tulle-net/tulle/subnet"
)

// Save replaces the snapshot in dir, which is made if it is missing, and says
// how many of the peers are in it. The only ones left out are those that
// nothing could read again, like one whose value only just fits the store. The
// peers are written one by one while they are yielded.
func Save(dir string, h Head, peers iter.Seq[subnet.Lease]) (saved int, err error) {
	// A config that was not parsed may not be what its text says.
	config := formatConfig(h.Config)
	if again, err := parseConfig(config); err != nil || again != h.Config {
		return 0, fmt.Errorf("save the network: %w", errors.Join(errors.New("the config would not read the same again"), err))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, fmt.Errorf("save the network: %w", err)
	}
	err = keepfile.Write(Path(dir), 0o600, func(out io.Writer) error {
		w := writer{out: out, sum: crc32.New(castagnoli)}
		w.line(fmt.Appendf(nil, "%s %d %s\n", magic, version, time.Now().UTC().Format(time.RFC3339)))
		w.line(fmt.Appendf(nil, "%s %s\n", sourceTag, strconv.Quote(h.Source)))
		w.line(fmt.Appendf(nil, "%s %s\n", configTag, config))
		if err := w.lease(ownTag, &h.Own); err != nil {
			return err
		}
		if h.ChecksumsBroken {
			w.line(fmt.Appendf(nil, "%s %s\n", brokenTag, checksums))
		}
		for _, b := range h.Former {
			if text := b.Format(); b.Type != "" && len(text) < maxLine-len(formerTag)-2 {
				w.line(fmt.Appendf(nil, "%s %s\n", formerTag, text))
			}
		}
		for l := range peers {
			if w.lease(peerTag, &l) == nil {
				saved++
			}
			if w.err != nil {
				return w.err
			}
		}
		w.line(fmt.Appendf(nil, "%s %d %08x\n", endTag, saved, w.sum.Sum32()))
		return w.err
	})
	if err != nil {
		return 0, fmt.Errorf("save the network: %w", err)
	}
	return saved, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// writer writes lines until one fails.
type writer struct {
	out  io.Writer
	sum  hash.Hash32
	err  error
	text []byte // of a line, used again
}

func (w *writer) line(text []byte) {
	if w.err != nil {
		return
	}
	w.sum.Write(text)
	_, w.err = w.out.Write(text)
}

// lease writes a line. An error is the lease's own, and then nothing is written.
func (w *writer) lease(tag string, l *subnet.Lease) error {
	key := l.Key()
	if _, err := subnet.ParseKey(key); err != nil {
		return err
	}
	text := append(w.text[:0], tag...)
	text = append(text, ' ')
	text = append(text, key...)
	text = append(text, ' ')
	text = strconv.AppendInt(text, l.Created, 10)
	text = append(text, ' ')
	text = appendTime(text, l.Expires)
	text = append(text, ' ')
	text, err := subnet.AppendAttrs(text, l.Attrs)
	w.text = text
	if err != nil {
		return err
	}
	w.line(append(text, '\n'))
	return nil
}

// formatConfig is a config in a line. That subnets are given by others is none of
// its text.
func formatConfig(c subnet.Config) []byte {
	text := subnet.FormatConfig(c)
	if c.Given {
		text = append([]byte(givenTag+" "), text...)
	}
	return text
}

// appendTime writes seconds and nanoseconds: a store may say any time, also one
// that a calendar has no room for.
func appendTime(text []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(text, '-')
	}
	text = strconv.AppendInt(text, t.Unix(), 10)
	text = append(text, '.')
	return strconv.AppendInt(text, int64(t.Nanosecond()), 10)
}
