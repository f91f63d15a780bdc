package extension

import (
	"fmt"
	"strings"
	"time"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/subnet"
)

// config has the backend's keys.
type config struct {
	PreStartupCommand   string // prepares this host, and prints what its peers get
	PostStartupCommand  string // runs once this host has its subnet
	SubnetAddCommand    string // runs for each peer
	SubnetRemoveCommand string // undoes that
	CommandTimeout      int    // seconds that a command may take
	MTU                 int    // of containers; 0: the uplink's
}

const (
	defaultTimeout = 30
	mostTimeout    = 600
)

// parse returns the config.
func parse(cfg subnet.Config) (config, error) {
	c := config{CommandTimeout: defaultTimeout}
	if err := cfg.Backend.Decode(&c); err != nil {
		return config{}, err
	}
	for key, text := range map[string]string{
		"PreStartupCommand": c.PreStartupCommand, "PostStartupCommand": c.PostStartupCommand,
		"SubnetAddCommand": c.SubnetAddCommand, "SubnetRemoveCommand": c.SubnetRemoveCommand,
	} {
		if strings.ContainsRune(text, 0) {
			return config{}, &subnet.ConfigError{
				Key: "Backend." + key, Why: "contains a zero byte, which no command can",
				Fix: `remove \u0000 from it`,
			}
		}
		if text != "" && strings.TrimSpace(text) == "" {
			return config{}, &subnet.ConfigError{
				Key: "Backend." + key, Value: fmt.Sprintf("%q", text), Why: "no command",
				Fix: "write a command, or leave it out",
			}
		}
	}
	if c.CommandTimeout < 1 || c.CommandTimeout > mostTimeout {
		return config{}, &subnet.ConfigError{
			Key: "Backend.CommandTimeout", Value: fmt.Sprint(c.CommandTimeout), Why: "out of range",
			Fix: fmt.Sprintf("set it to a number of seconds from 1 to %d, or leave it out for %d", mostTimeout, defaultTimeout),
		}
	}
	return c, c.checkMTU(cfg)
}

// checkMTU requires room for the smallest packet that all hosts must accept.
func (c config) checkMTU(cfg subnet.Config) error {
	const most = 65535
	least := 0
	for f, pool := range cfg.Pools {
		if pool.IsValid() {
			least = max(least, backend.MinimumMTU[f])
		}
	}
	if c.MTU == 0 || c.MTU >= least && c.MTU <= most {
		return nil
	}
	return &subnet.ConfigError{
		Key: "Backend.MTU", Value: fmt.Sprint(c.MTU), Why: "out of range",
		Fix: fmt.Sprintf("set it to one from %d to %d, or leave it out for the interface's", least, most),
	}
}

func (c config) limit() time.Duration { return time.Duration(c.CommandTimeout) * time.Second }
