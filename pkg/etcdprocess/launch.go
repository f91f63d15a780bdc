package etcdprocess

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tulle-net/tulle/pkg/keepfile"
)

const (
	programName = "tulle-etcd"
	unitName    = "tulle-etcd.service"
	// unitSettings is the file that dist/systemd/tulle-etcd.service names.
	unitSettings = "/run/tulle/tulle-etcd.env"
)

// launcher starts a tulle-etcd that outlives this process.
type launcher interface {
	// start returns when the start is under way.
	start(ctx context.Context, s Settings) error
	// log names the place of its log, and stop the command that stops it.
	log(s Settings) string
	stop(s Settings) string
}

// newLauncher returns the launcher for this host. systemd ends a service's children
// with the service, so a service asks systemd for the start.
func newLauncher(by string) launcher {
	group, err := os.ReadFile("/proc/self/cgroup")
	if err == nil && isService(string(group), os.Getppid(), exists("/run/systemd/system")) {
		return unit{unitSettings, "systemctl"}
	}
	return child{func() (string, error) { return beside(by) }}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// isService reports whether this is the main process of a systemd service, by its
// control groups and its parent. A child of a service is not, such as a test that a
// CI runner starts.
func isService(groups string, parent int, booted bool) bool {
	if !booted || parent != 1 {
		return false
	}
	for line := range strings.Lines(groups) {
		id, path, ok := strings.Cut(strings.TrimSpace(line), ":")
		name, path, named := strings.Cut(path, ":")
		if ok && named && (id == "0" || name == "name=systemd") && strings.HasSuffix(path, ".service") {
			return true
		}
	}
	return false
}

// unit starts tulle-etcd as a service of its own.
type unit struct {
	settings  string // the file from which it reads them
	systemctl string // the program
}

func (u unit) start(ctx context.Context, s Settings) error {
	if err := os.MkdirAll(filepath.Dir(u.settings), 0o755); err != nil {
		return err
	}
	if err := keepfile.Write(u.settings, 0o600, func(w io.Writer) error { _, err := io.WriteString(w, s.Environment()); return err }); err != nil {
		return fmt.Errorf("write the settings of %s: %w", unitName, err)
	}
	const limit = 30 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, err := exec.CommandContext(ctx, u.systemctl, "--no-ask-password", "--no-block", "start", unitName).CombinedOutput()
	switch said := string(bytes.TrimSpace(out)); {
	case err == nil:
		return nil
	case strings.Contains(said, "not found"):
		return fmt.Errorf("systemd has no %s; copy it from dist/systemd to /etc/systemd/system, and the program %s to /usr/bin, or install tulle's package", unitName, programName)
	case said != "":
		return fmt.Errorf("start %s: %s", unitName, said)
	}
	return fmt.Errorf("start %s with systemctl: %w", unitName, err)
}

func (unit) log(Settings) string { return "journalctl -u " + unitName }

func (unit) stop(Settings) string { return "systemctl stop " + unitName }

// child starts tulle-etcd as a process of a session of its own, so that neither a
// terminal nor the end of this process ends it.
type child struct {
	find func() (program string, err error)
}

// mostLog is the size above which a start moves the log away.
const mostLog = 1 << 20

func (c child) start(_ context.Context, s Settings) error {
	program, err := c.find()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return fmt.Errorf("make etcd's folder: %w", err)
	}
	path := c.log(s)
	if info, err := os.Stat(path); err == nil && info.Size() > mostLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return fmt.Errorf("move etcd's log away: %w", err)
		}
	}
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open etcd's log: %w", err)
	}
	defer to.Close()
	cmd := exec.Command(program, s.Arguments()...)
	cmd.Dir, cmd.Env = "/", environment(os.Environ())
	cmd.Stdout, cmd.Stderr = to, to
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	// Its socket reports how it fares.
	go func() { _ = cmd.Wait() }()
	return nil
}

func (child) log(s Settings) string { return filepath.Join(s.Dir, "log") }

func (child) stop(s Settings) string { return programName + " stop --data-dir=" + s.Dir }

// environment returns the variables that a child inherits: Go's own. Others may hold
// a password, and tulle-etcd takes its settings from its flags.
func environment(all []string) []string {
	own := []string{}
	for _, entry := range all {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "GO") {
			own = append(own, entry)
		}
	}
	return own
}

// beside returns the path of the program, which is in the folder of this one. An error
// names the setting that needs it.
func beside(by string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(self), programName)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("there is no %s, which %s needs; install that program there, of the same release as this one", path, cmp.Or(by, "an embedded etcd"))
	} else if err != nil {
		return "", fmt.Errorf("find %s: %w", programName, err)
	}
	return path, nil
}
