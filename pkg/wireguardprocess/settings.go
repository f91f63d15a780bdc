// Package wireguardprocess has the settings of the program tulle-wireguard, WireGuard in
// user space.
package wireguardprocess

import (
	"path/filepath"
	"strings"

	"github.com/tulle-net/tulle/pkg/companion"
	"github.com/tulle-net/tulle/pkg/flags"
)

// Settings say how one tulle-wireguard runs. The daemon sends all that WireGuard itself
// needs to its socket.
type Settings struct {
	Dir       string // holds its sockets; only root may open it
	Interface string // the TUN device, which exists
}

// Defaults are what holds where nothing else is said.
var Defaults = Settings{Dir: "/var/lib/tulle/wireguard/tulle-wg", Interface: "tulle-wg"}

// Prefix begins the variables that stand for the flags.
const Prefix = "TULLE_WIREGUARD_"

// socketName is short, because the path of a socket is limited.
const socketName = "uapi"

// Socket returns the path of the socket that speaks WireGuard's configuration protocol.
func (s Settings) Socket() string { return filepath.Join(s.Dir, socketName) }

// Flags returns the flags that set s, below a heading of the help.
func (s *Settings) Flags(group string) []flags.Flag {
	return []flags.Flag{
		flags.Flag{Name: "data-dir", Value: "DIR", Default: Defaults.Dir, About: "folder for its sockets", Set: flags.To(&s.Dir, folder)}.In(group),
		flags.Flag{Name: "interface", Value: "NAME", Default: Defaults.Interface, About: "TUN device that it serves, which must exist", Set: flags.To(&s.Interface, link)}.In(group),
	}
}

// folder reads an absolute path, so that two processes mean the same folder.
func folder(value string) (string, error) {
	if !filepath.IsAbs(value) {
		return "", flags.Refuse(value, "not an absolute path", "write one like "+Defaults.Dir)
	}
	return flags.Folder(filepath.Clean(value))
}

// link reads the name of a device, which becomes part of a path.
func link(value string) (string, error) {
	const longest = 15
	if value == "" || value == "." || value == ".." || len(value) > longest || strings.ContainsAny(value, "/ \t\n\x00") {
		return "", flags.Refuse(value, "not the name of a device", "write one like "+Defaults.Interface)
	}
	return value, nil
}

// arguments returns the settings as flags.
func (s Settings) arguments() []string {
	return []string{"--data-dir=" + s.Dir, "--interface=" + s.Interface}
}

// Spec returns how the program is started with these settings. Errors call the setting
// that asks for it by.
func (s Settings) Spec(by string) companion.Spec {
	return companion.Spec{
		Program: "tulle-wireguard", Unit: "tulle-wireguard@" + s.Interface + ".service", Dir: s.Dir, By: by,
		Settings: companion.SettingsOf(s), Arguments: s.arguments(),
		Environment: companion.Variables(Prefix, func(yield func(variable, value string) bool) {
			_ = yield("DATA_DIR", s.Dir) && yield("INTERFACE", s.Interface)
		}),
	}
}
