package iptables

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// list is a file in which the kernel lists the tables of a family. It is kept open,
// for it is read often.
type list struct {
	path  string
	file  *os.File
	text  string
	names []string
}

// read says whether there are others than before.
func (l *list) read() (changed bool, err error) {
	if l.file == nil {
		if l.file, err = os.Open(l.path); errors.Is(err, fs.ErrNotExist) { // the kernel has none, or not yet
			return l.set(nil), nil
		} else if err != nil {
			return false, fmt.Errorf("look which legacy tables of iptables are in use: %w", err)
		}
	}
	var text [512]byte
	n, err := l.file.ReadAt(text[:], 0)
	if err != nil && err != io.EOF { // the kernel has none any more
		l.close()
	}
	return l.set(text[:n]), nil
}

func (l *list) set(text []byte) (changed bool) {
	if string(text) == l.text {
		return false
	}
	l.text = string(text)
	l.names = strings.Fields(l.text)
	return true
}

func (l *list) close() {
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
}
