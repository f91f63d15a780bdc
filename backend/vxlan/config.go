package vxlan

import (
	"fmt"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/subnet"
)

// config has the backend's keys.
type config struct {
	VNI           uint32
	Port          uint16
	GBP           bool
	Learning      bool
	DirectRouting bool
	MTU           int // of the packets on the wire; 0: the device's
	Offload       backend.Offload
}

// TunnelKeys are the keys of the tunnel itself.
type TunnelKeys struct {
	VNI      uint32
	Port     uint16
	GBP      bool
	Learning bool
	MTU      int
	Offload  backend.Offload
}

func (c config) tunnel() TunnelKeys {
	return TunnelKeys{c.VNI, c.Port, c.GBP, c.Learning, c.MTU, c.Offload}
}

const (
	maxVNI = 1<<24 - 1
	// defaultPort is what Linux used before VXLAN had an assigned port, and flannel too.
	defaultPort = 8472
)

func parse(cfg subnet.Config) (config, error) {
	c := config{VNI: 1, Offload: backend.OffloadAuto}
	if err := cfg.Backend.Decode(&c); err != nil {
		return config{}, err
	}
	if c.Port == 0 {
		c.Port = defaultPort
	}
	if c.VNI > maxVNI {
		return config{}, &subnet.ConfigError{
			Key: "Backend.VNI", Value: fmt.Sprint(c.VNI), Why: "not a VNI (24 bits)",
			Fix: fmt.Sprintf("set it to one from 0 to %d", maxVNI),
		}
	}
	if err := c.Offload.Check(); err != nil {
		return config{}, err
	}
	if err := c.checkMTU(cfg); err != nil {
		return config{}, err
	}
	return c, nil
}

// checkMTU requires room for the smallest packet that all hosts must accept.
func (c config) checkMTU(cfg subnet.Config) error {
	least, most := 0, 65535
	for f, pool := range cfg.Pools {
		if pool.IsValid() {
			least = max(least, backend.MinimumMTU[f]+overhead[f])
		}
	}
	if c.MTU == 0 || c.MTU >= least && c.MTU <= most {
		return nil
	}
	return &subnet.ConfigError{
		Key: "Backend.MTU", Value: fmt.Sprint(c.MTU), Why: "out of range for a link that carries a tunnel",
		Fix: fmt.Sprintf("set it to one from %d to %d, or leave it out for the interface's", least, most),
	}
}

func (c config) deviceName(f subnet.Family) string {
	if f == subnet.IPv6 {
		return fmt.Sprintf("tulle6.%d", c.VNI)
	}
	return fmt.Sprintf("tulle.%d", c.VNI)
}
