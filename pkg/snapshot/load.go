package snapshot

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

// Load reads the snapshot in dir of the network that is kept at source.
// Whether its leases make peers is for subnet.Table to say, as for a store's.
func Load(dir, source string) (Snapshot, error) { return load(dir, source, true) }

// LoadHead loads only the head, which is enough to be the same node again. It
// refuses a file that is damaged behind the head: the head may be damaged too.
func LoadHead(dir, source string) (Head, error) {
	s, err := load(dir, source, false)
	return s.Head, err
}

func load(dir, source string, peers bool) (Snapshot, error) {
	path := Path(dir)
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe is refused, not waited for
	if err != nil {
		return Snapshot{}, fmt.Errorf("load the network: %w", err)
	}
	defer f.Close()
	s, err := read(f, source, peers)
	switch {
	case errors.Is(err, errCorrupt), errors.Is(err, errVersion), errors.Is(err, errSource):
		return Snapshot{}, fmt.Errorf("load the network: %s: %w; if that persists, delete it: the daemon writes it again from the store", path, err)
	case err != nil:
		return Snapshot{}, fmt.Errorf("load the network: %s: %w", path, err)
	}
	return s, nil
}

func read(f *os.File, source string, peers bool) (Snapshot, error) {
	info, err := f.Stat()
	switch {
	case err != nil:
		return Snapshot{}, err
	case !info.Mode().IsRegular():
		return Snapshot{}, corrupt("not a regular file")
	case info.Size() > maxFile:
		return Snapshot{}, corrupt("%d bytes are more than the %d allowed", info.Size(), maxFile)
	}
	return decode(f, info.Size(), source, peers)
}

// decode reads a snapshot of size bytes, with its peers or without.
func decode(file io.ReaderAt, size int64, source string, peers bool) (Snapshot, error) {
	r := reader{in: bufio.NewReaderSize(io.NewSectionReader(file, 0, size), 32<<10)}
	s, err := r.head(source)
	if err != nil {
		return Snapshot{}, err
	}
	if peers {
		s.Peers = make([]subnet.Lease, 0, peerCount(file, size))
	}
	for count, former := 0, 0; ; {
		tag, rest, err := r.next(maxLine)
		switch {
		case err != nil:
			return Snapshot{}, err
		case string(tag) == endTag:
			if err := r.end(rest, count); err != nil {
				return Snapshot{}, err
			}
			return s, nil
		case string(tag) == brokenTag && string(rest) == checksums && count == 0 && !s.ChecksumsBroken:
			s.ChecksumsBroken = true
			continue
		case string(tag) == formerTag && count == 0 && former < MostFormer:
			if s.Former[former], err = subnet.ParseBackend(rest); err != nil {
				return Snapshot{}, r.corrupt(err)
			}
			former++
			continue
		case string(tag) != peerTag:
			return Snapshot{}, corrupt("line %d has an unknown kind", r.number)
		case peers:
			l, err := parseLease(rest)
			if err != nil {
				return Snapshot{}, r.corrupt(err)
			}
			s.Peers = append(s.Peers, l)
		}
		count++
	}
}

// peerCount is how many peers there are by the last line, so that they need no
// more room than they take. It is no more than the file has room for.
func peerCount(file io.ReaderAt, size int64) int {
	const shortest = len("peer 1.0.0.0-8 0 - {}\n")
	var tail [64]byte
	n, _ := file.ReadAt(tail[:], max(0, size-int64(len(tail))))
	text := strings.TrimSuffix(string(tail[:n]), "\n")
	words := strings.Fields(text[strings.LastIndexByte(text, '\n')+1:])
	if len(words) != 3 || words[0] != endTag {
		return 0
	}
	count, err := strconv.Atoi(words[1])
	if err != nil || count < 0 || int64(count) > size/int64(shortest) {
		return 0
	}
	return count
}

// reader reads lines and sums them up.
type reader struct {
	in     *bufio.Reader
	number int    // of the last line
	sum    uint32 // of all lines
	before uint32 // of all but the last
	long   []byte // room for a line that the buffer has none for
}

func (r *reader) corrupt(err error) error {
	return fmt.Errorf("%w: line %d: %w", errCorrupt, r.number, err)
}

// next is the next line, its first word apart. It is good until the next call.
func (r *reader) next(limit int) (tag, rest []byte, err error) {
	r.number++
	line, err := r.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		r.long = r.long[:0]
		for errors.Is(err, bufio.ErrBufferFull) && len(r.long)+len(line) <= limit {
			r.long = append(r.long, line...)
			line, err = r.in.ReadSlice('\n')
		}
		r.long = append(r.long, line...)
		line = r.long
	}
	switch {
	case len(line) > limit:
		return nil, nil, corrupt("line %d has more than the %d bytes allowed", r.number, limit)
	case errors.Is(err, io.EOF):
		return nil, nil, corrupt("it is cut off in line %d", r.number)
	case err != nil:
		return nil, nil, err
	}
	r.before, r.sum = r.sum, crc32.Update(r.sum, castagnoli, line)
	tag, rest, _ = bytes.Cut(line[:len(line)-1], []byte{' '})
	return tag, rest, nil
}

// expect is the rest of the next line, which must begin with tag.
func (r *reader) expect(tag string, limit int) ([]byte, error) {
	got, rest, err := r.next(limit)
	if err == nil && string(got) != tag {
		err = corrupt("line %d does not begin with %s", r.number, tag)
	}
	return rest, err
}

func (r *reader) head(source string) (s Snapshot, err error) {
	rest, err := r.expect(magic, maxLine)
	if err != nil {
		return s, err
	}
	number, saved, _ := strings.Cut(string(rest), " ")
	switch v, err := strconv.Atoi(number); {
	case err != nil || v < 1:
		return s, corrupt("line 1 has no version")
	case v > version:
		return s, fmt.Errorf("%w: its format is version %d, this program reads up to %d", errVersion, v, version)
	}
	if s.Saved, err = time.Parse(time.RFC3339, saved); err != nil {
		return s, corrupt("line 1 has no time")
	}
	if rest, err = r.expect(sourceTag, maxLine); err != nil {
		return s, err
	}
	if s.Source, err = strconv.Unquote(string(rest)); err != nil {
		return s, r.corrupt(err)
	}
	if rest, err = r.expect(configTag, maxConfig); err != nil {
		return s, err
	}
	if s.Config, err = parseConfig(rest); err != nil {
		return s, r.corrupt(err)
	}
	r.long = nil // a config may take much
	if rest, err = r.expect(ownTag, maxLine); err != nil {
		return s, err
	}
	if s.Own, err = parseLease(rest); err != nil {
		return s, r.corrupt(err)
	}
	if s.Source != source {
		return s, fmt.Errorf("%w: %.100q, not %.100q", errSource, s.Source, source)
	}
	return s, nil
}

// end checks the last line against what was read.
func (r *reader) end(rest []byte, peers int) error {
	if want := fmt.Sprintf("%d %08x", peers, r.before); string(rest) != want {
		return corrupt("its end has checksum %.40q, its lines have %q", rest, want)
	}
	if _, err := r.in.ReadByte(); !errors.Is(err, io.EOF) {
		return corrupt("data after its end")
	}
	return nil
}

func parseConfig(text []byte) (subnet.Config, error) {
	text, given := bytes.CutPrefix(text, []byte(givenTag+" "))
	c, err := subnet.ParseConfig(text)
	c.Given = given && err == nil
	return c, err
}

func parseLease(text []byte) (subnet.Lease, error) {
	key, text, _ := bytes.Cut(text, []byte{' '})
	created, text, _ := bytes.Cut(text, []byte{' '})
	expires, value, _ := bytes.Cut(text, []byte{' '})
	l, err := subnet.ParseLease(string(key), value)
	if err != nil {
		return subnet.Lease{}, err
	}
	if l.Created, err = strconv.ParseInt(string(created), 10, 64); err != nil {
		return subnet.Lease{}, fmt.Errorf("%.40q is not a number", created)
	}
	var ok bool
	if l.Expires, ok = parseTime(string(expires)); !ok {
		return subnet.Lease{}, fmt.Errorf("%.40q is not a time", expires)
	}
	return l, nil
}

// parseTime reads what appendTime writes.
func parseTime(text string) (t time.Time, ok bool) {
	if text == "-" {
		return time.Time{}, true
	}
	seconds, nanoseconds, _ := strings.Cut(text, ".")
	s, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}, false
	}
	ns, err := strconv.ParseUint(nanoseconds, 10, 32)
	if err != nil || ns >= 1e9 {
		return time.Time{}, false
	}
	return time.Unix(s, int64(ns)), true
}
