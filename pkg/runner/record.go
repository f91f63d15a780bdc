package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tulle-net/tulle/pkg/keepfile"
	"github.com/tulle-net/tulle/pkg/netstate"
)

// record is a command that was run, or begun, as its file has it. Each has a file of its
// own, which is written before the command runs and removed after it was undone. So a
// process that is killed at any moment leaves the file of whatever it may have done.
type record struct {
	Version int           `json:"version"`
	Name    string        `json:"name"`
	Subnet  netip.Prefix  `json:"subnet"`
	Run     string        `json:"run"`
	Undo    string        `json:"undo"`
	Env     string        `json:"env"`
	Stdin   []byte        `json:"stdin,omitempty"` // any bytes
	Limit   time.Duration `json:"limit"`
}

const (
	recordVersion = 1
	recordSuffix  = ".json"
	mostRecord    = 1 << 20
)

// recordsIn returns the folder of the records in a state folder.
func recordsIn(dir string) string { return filepath.Join(dir, "commands") }

// file returns the path of a command's record.
func file(dir string, c netstate.Command) string {
	return filepath.Join(recordsIn(dir), strings.ReplaceAll(c.Subnet.String(), "/", "-")+recordSuffix)
}

// save writes the record of a command.
func save(dir string, c netstate.Command) error {
	if err := os.MkdirAll(recordsIn(dir), 0o700); err != nil {
		return fmt.Errorf("record the command: %w", err)
	}
	text, err := json.Marshal(record{
		Version: recordVersion, Name: c.Name, Subnet: c.Subnet, Run: c.Run, Undo: c.Undo,
		Env: c.Env, Stdin: []byte(c.Stdin), Limit: c.Limit,
	})
	if err == nil {
		err = keepfile.WriteAtomic(file(dir, c), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("record the command: %w", err)
	}
	return nil
}

// forget removes the record of a command.
func forget(dir string, c netstate.Command) error {
	if err := os.Remove(file(dir, c)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the record of the command: %w", err)
	}
	return nil
}

// Recorded returns the commands whose records are in a state folder, which no Runner uses.
// Records that cannot be used are left where they are, and each is an error of bad.
func Recorded(dir string) (commands []netstate.Command, bad []error, err error) { return load(dir) }

// Undo undoes a recorded command, and removes its record.
func Undo(ctx context.Context, dir string, c netstate.Command, env []string) error {
	r := &Runner{Options: Options{Dir: dir, Env: env}, start: start}
	if err := r.undo(ctx, c); err != nil {
		return err
	}
	return forget(dir, c)
}

// load returns the commands that an earlier run recorded, as stale ones. Records that
// cannot be used are left where they are, and each is an error of bad.
func load(dir string) (commands []netstate.Command, bad []error, err error) {
	entries, err := os.ReadDir(recordsIn(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the records of commands: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(recordsIn(dir), e.Name())
		if !strings.HasSuffix(e.Name(), recordSuffix) {
			continue // a temporary file of a write that was cut off
		}
		c, err := read(path)
		if err == nil && file(dir, c) != path {
			err = fmt.Errorf("it is of %s", c.Subnet)
		}
		if err != nil {
			bad = append(bad, fmt.Errorf("record of a command %s: %w; undo by hand what the command did, and delete the file", path, err))
			continue
		}
		commands = append(commands, c)
	}
	return commands, bad, nil
}

// read reads a record. Root runs what it says, so only root may be able to write it.
func read(path string) (netstate.Command, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return netstate.Command{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return netstate.Command{}, err
	}
	switch owner, ok := info.Sys().(*syscall.Stat_t); {
	case !info.Mode().IsRegular():
		return netstate.Command{}, errors.New("it is not a regular file")
	case !ok || int(owner.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0:
		return netstate.Command{}, errors.New("other users can write it")
	}
	text, err := io.ReadAll(io.LimitReader(f, mostRecord+1))
	if err != nil {
		return netstate.Command{}, err
	}
	return parse(text)
}

// parse returns the command of a record.
func parse(text []byte) (netstate.Command, error) {
	var r record
	switch err := json.Unmarshal(text, &r); {
	case len(text) > mostRecord:
		return netstate.Command{}, errors.New("it is too large")
	case err != nil:
		return netstate.Command{}, errors.New("it is not valid JSON of a record")
	case r.Version != recordVersion:
		return netstate.Command{}, fmt.Errorf("its version is %d, and this program knows version %d", r.Version, recordVersion)
	case !r.Subnet.IsValid() || r.Subnet != r.Subnet.Masked() || r.Subnet.Addr().Zone() != "":
		return netstate.Command{}, errors.New("it has no subnet")
	case r.Name == "" || r.Undo == "" || r.Limit <= 0:
		return netstate.Command{}, errors.New("it has no name, no limit, or nothing to undo the command")
	case strings.ContainsRune(r.Run+r.Undo+r.Env, 0):
		return netstate.Command{}, errors.New("a text in it contains a zero byte")
	}
	return netstate.Command{
		Name: r.Name, Subnet: r.Subnet, Run: r.Run, Undo: r.Undo, Env: r.Env,
		Stdin: string(r.Stdin), Limit: r.Limit, Stale: true,
	}, nil
}
