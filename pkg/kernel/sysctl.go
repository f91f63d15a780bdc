package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/tulle-net/tulle/pkg/netstate"
)

const (
	// sysctls is the folder of settings. Its folder net shows those of the namespace of
	// the thread that opens it.
	sysctls = "/proc/sys"
	// hostSysctls is where a container mounts the host's folder net: its own /proc/sys is
	// read-only, unless it is privileged.
	hostSysctls = "/host/proc/sys"
)

// sysctlFile returns the path of a setting below a folder.
func sysctlFile(below, path string) string { return filepath.Join(below, filepath.Clean("/"+path)) }

func readSysctl(path string) (string, error) {
	b, err := os.ReadFile(sysctlFile(sysctls, path))
	return strings.TrimSpace(string(b)), err
}

// readSetting reads a setting of any kind in the namespace.
func (k *Kernel) readSetting(path string) (string, error) {
	if link, ok := netstate.TxChecksumOf(path); ok {
		return k.conn.readTxChecksum(link)
	}
	return readSysctl(path)
}

func (k *Kernel) writeSetting(s netstate.Sysctl) error {
	if link, ok := netstate.TxChecksumOf(s.Path); ok {
		return k.conn.writeTxChecksum(link, s.Value)
	}
	return writeSysctl(s)
}

// writeSysctl writes a setting only if its value differs. So a read-only /proc/sys,
// as in many containers, does not matter if the value is right.
func writeSysctl(s netstate.Sysctl) error {
	is, err := readSysctl(s.Path)
	if err != nil {
		return err
	}
	if is == s.Value {
		return nil
	}
	if err = setSysctl(s, sysctls, hostSysctls); notAllowed(err) {
		return fmt.Errorf("%w; it is %s: set it on the host with «sysctl -w %s=%s»", err, is, s.Path, s.Value)
	}
	if err == nil && s.Path == forwardingOfAll {
		err = spreadForwarding(s.Value)
	}
	return err
}

// setSysctl writes a setting below the first folder that allows it. If it does not
// exist below a later one, the error is that of the first.
func setSysctl(s netstate.Sysctl, folders ...string) (err error) {
	for _, folder := range folders {
		e := overwrite(sysctlFile(folder, s.Path), s.Value)
		if err == nil || !errors.Is(e, fs.ErrNotExist) {
			err = e
		}
		if !notAllowed(err) {
			break
		}
	}
	return err
}

// overwrite writes to an existing file.
func overwrite(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func notAllowed(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, errReadOnly)
}

// dumpSysctls reads settings. It omits those that do not exist, for example of a
// missing link.
func (k *Kernel) dumpSysctls(paths []string) ([]netstate.Object, error) {
	var out []netstate.Object
	if len(paths) == 0 {
		return nil, nil
	}
	err := inNamespace(k.namespace, func() error {
		for _, p := range paths {
			v, err := k.readSetting(p)
			switch {
			case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENODEV):
			case err != nil:
				return err
			default:
				out = append(out, netstate.Sysctl{Path: p, Value: v})
			}
		}
		return nil
	})
	return out, err
}
