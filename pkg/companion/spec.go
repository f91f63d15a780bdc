package companion

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// Spec says which program runs, and how. It can be compared with another one of the same
// program by its Settings.
type Spec struct {
	Program string // its name, like tulle-etcd
	Unit    string // the service of systemd that runs it
	Dir     string // holds its lock and its socket; only root may open it
	By      string // the setting that asks for the program, like --etcd-embedded
	// Settings are the program's settings, as its flags and as a file of variables set them.
	Settings    Settings
	Arguments   []string
	Environment string
}

// Settings is a text that is the same for the same settings of a program.
type Settings string

// SettingsOf returns the text of a struct of settings.
func SettingsOf(s any) Settings {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // settings are texts, numbers and booleans
	}
	return Settings(b)
}

// MarshalJSON implements json.Marshaler.
func (s Settings) MarshalJSON() ([]byte, error) { return []byte(cmp.Or(s, "null")), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (s *Settings) UnmarshalJSON(b []byte) error {
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		return err
	}
	*s = Settings(out.String())
	return nil
}

// Stop returns the command that stops the program where no systemd does.
func (s Spec) Stop() string { return fmt.Sprintf("%s stop --data-dir=%s", s.Program, s.Dir) }

// Variables returns settings as a file that systemd reads.
func Variables(prefix string, settings func(yield func(variable, value string) bool)) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", "$", `\$`)
	var b strings.Builder
	for variable, value := range settings {
		if value != "" {
			fmt.Fprintf(&b, "%s%s=\"%s\"\n", prefix, variable, escape.Replace(value))
		}
	}
	return b.String()
}
