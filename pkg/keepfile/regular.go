package keepfile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// regular is a regular file as it was set.
type regular struct {
	content []byte
	mode    fs.FileMode
}

// Write implements Thing.
func (r regular) Write(path string) error { return WriteAtomic(path, r.content, r.mode) }

// IsRight implements Thing.
func (r regular) IsRight(path string) bool {
	content := r.content
	// Not blocking: it may be a pipe.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false // writing it shows what is wrong
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Mode() != r.mode || info.Size() != int64(len(content)) {
		return false
	}
	buf := make([]byte, min(len(content), 64<<10)+1) // one byte more, to see the end
	for {
		n, err := io.ReadFull(f, buf)
		if n > len(content) || !bytes.Equal(buf[:n], content[:n]) {
			return false
		}
		content = content[n:]
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return len(content) == 0
		}
		if err != nil {
			return false
		}
	}
}
