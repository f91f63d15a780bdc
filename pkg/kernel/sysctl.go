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

// sysctlFile is where a setting stands. /proc/sys/net shows the settings of
// the namespace of the thread that opens it.
func sysctlFile(path string) string { return filepath.Join("/proc/sys", filepath.Clean("/"+path)) }

func readSysctl(path string) (string, error) {
	b, err := os.ReadFile(sysctlFile(path))
	return strings.TrimSpace(string(b)), err
}

// readSetting reads a setting, of whichever kind it is, in the namespace.
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

// writeSysctl sets what differs: with a value that is there already, a
// read-only /proc/sys, as in many containers, is no obstacle.
func writeSysctl(s netstate.Sysctl) error {
	is, err := readSysctl(s.Path)
	if err != nil {
		return err
	}
	if is == s.Value {
		return nil
	}
	err = os.WriteFile(sysctlFile(s.Path), []byte(s.Value), 0)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, errReadOnly) {
		return fmt.Errorf("%w; it is %s: set it on the host with «sysctl -w %s=%s»", err, is, s.Path, s.Value)
	}
	return err
}

// dumpSysctls reads settings; one that does not exist, as of a link that is
// not there yet, is left out.
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
