package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/tulle-net/tulle/pkg/trouble"
	"github.com/tulle-net/tulle/subnet"
)

const (
	// interval is the poll interval of the config file. A poll is one system call.
	interval = time.Second
	// largestConfig is the size limit of a ConfigMap.
	largestConfig = 1 << 20
)

// Config implements subnet.Store. The config is in a file. People change it, or the
// kubelet that mounts it does, by pointing a link at another folder.
func (s *Store) Config(ctx context.Context, known subnet.Config) (subnet.Config, error) {
	path := s.options.ConfigFile
	var seen fs.FileInfo
	usable := trouble.Config(known == subnet.Config{})
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		now, err := os.Stat(path) // follows links
		if err != nil || seen == nil || !same(seen, now) {
			var cfg subnet.Config
			cfg, seen, err = s.loadConfig()
			usable.Was(err, "path", path)
			if err == nil && cfg != known {
				return cfg, nil
			}
		}
		select {
		case <-ctx.Done():
			return subnet.Config{}, subnet.Waited(usable.Err(), ctx.Err())
		case <-tick.C:
		}
	}
}

// usable returns the present config or, while that is invalid, the last valid one: a
// node must go on publishing changes of its host. It waits for the first valid
// config.
func (s *Store) usable(ctx context.Context) (subnet.Config, error) {
	if cfg, _, err := s.loadConfig(); err == nil {
		return cfg, nil
	}
	s.mu.Lock()
	last := s.config
	s.mu.Unlock()
	if last != (subnet.Config{}) {
		return last, nil
	}
	return s.Config(ctx, subnet.Config{})
}

// loadConfig reads the config, and keeps a valid one in s.
func (s *Store) loadConfig() (subnet.Config, fs.FileInfo, error) {
	cfg, info, err := readConfig(s.options.ConfigFile, s.options.Names)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.config = cfg
	}
	return cfg, info, err
}

// readConfig reads the config at path. info describes the file that was read. It is
// nil if the caller must read again at the next poll.
func readConfig(path string, names Names) (cfg subnet.Config, info fs.FileInfo, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // does not block on a pipe, which is refused below
	if err != nil {
		return subnet.Config{}, nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return subnet.Config{}, nil, err
	}
	if !info.Mode().IsRegular() {
		return subnet.Config{}, info, errors.New("not a file")
	}
	text, err := io.ReadAll(io.LimitReader(f, largestConfig+1))
	switch {
	case err != nil:
		return subnet.Config{}, nil, err
	case len(text) > largestConfig:
		return subnet.Config{}, info, fmt.Errorf("too long for a network's config; give the file that holds net-conf.json (%s)", names.ConfigFile)
	}
	cfg, err = subnet.ParseConfig(text)
	cfg.Given = err == nil
	return cfg, info, err
}

func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && a.Mode() == b.Mode()
}
