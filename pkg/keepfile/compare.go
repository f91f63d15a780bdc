package keepfile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// isAsSet says whether the file at path, which is no link, has this content and
// mode.
func isAsSet(path string, content []byte, mode fs.FileMode) bool {
	// Not blocking: it may be a pipe.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false // to write it will tell what is wrong
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Mode() != mode || info.Size() != int64(len(content)) {
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
