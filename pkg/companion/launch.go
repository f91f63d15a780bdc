package companion

import (
	"bytes"
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

// settingsFolder has a file of settings for each unit. The units of dist/systemd name
// these files.
const settingsFolder = "/run/tulle"

// launcher starts a program that outlives this process.
type launcher interface {
	// start returns when the start is under way.
	start(ctx context.Context, s Spec) error
	// log names the place of its log, and stop the command that stops it.
	log(s Spec) string
	stop(s Spec) string
}

// newLauncher returns the launcher for this host. systemd ends a service's children
// with the service, so a service asks systemd for the start.
func newLauncher() launcher {
	group, err := os.ReadFile("/proc/self/cgroup")
	if err == nil && isService(string(group), os.Getppid(), exists("/run/systemd/system")) {
		return unit{settingsFolder, "systemctl"}
	}
	return child{beside}
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

// unit starts a program as a service of its own.
type unit struct {
	folder    string // of the file from which the service reads its settings
	systemctl string // the program
}

func (u unit) start(ctx context.Context, s Spec) error {
	if err := os.MkdirAll(u.folder, 0o755); err != nil {
		return err
	}
	file := filepath.Join(u.folder, strings.TrimSuffix(s.Unit, ".service")+".env")
	if err := keepfile.Write(file, 0o600, func(w io.Writer) error { _, err := io.WriteString(w, s.Environment); return err }); err != nil {
		return fmt.Errorf("write the settings of %s: %w", s.Unit, err)
	}
	const limit = 30 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, err := exec.CommandContext(ctx, u.systemctl, "--no-ask-password", "--no-block", "start", s.Unit).CombinedOutput()
	switch said := string(bytes.TrimSpace(out)); {
	case err == nil:
		return nil
	case strings.Contains(said, "not found"):
		return fmt.Errorf("systemd has no %s; copy it from dist/systemd to /etc/systemd/system, and the program %s to /usr/bin, or install tulle's package", s.Unit, s.Program)
	case said != "":
		return fmt.Errorf("start %s: %s", s.Unit, said)
	}
	return fmt.Errorf("start %s with systemctl: %w", s.Unit, err)
}

func (unit) log(s Spec) string { return "journalctl -u " + s.Unit }

func (unit) stop(s Spec) string { return "systemctl stop " + s.Unit }

// child starts a program as a process of a session of its own, so that neither a
// terminal nor the end of this process ends it.
type child struct {
	find func(Spec) (program string, err error)
}

// mostLog is the size above which a start moves the log away.
const mostLog = 1 << 20

func (c child) start(_ context.Context, s Spec) error {
	program, err := c.find(s)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of %s: %w", s.Program, err)
	}
	path := c.log(s)
	if info, err := os.Stat(path); err == nil && info.Size() > mostLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return fmt.Errorf("move the log of %s away: %w", s.Program, err)
		}
	}
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", s.Program, err)
	}
	defer to.Close()
	cmd := exec.Command(program, s.Arguments...)
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

func (child) log(s Spec) string { return filepath.Join(s.Dir, "log") }

func (child) stop(s Spec) string { return s.Stop() }

// environment returns the variables that a child inherits: Go's own. Others may hold
// a password, and the program takes its settings from its flags.
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
func beside(s Spec) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(self), s.Program)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("there is no %s, which %s needs; install that program there, of the same release as this one", path, s.By)
	} else if err != nil {
		return "", fmt.Errorf("find %s: %w", s.Program, err)
	}
	return path, nil
}
