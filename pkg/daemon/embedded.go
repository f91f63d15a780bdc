package daemon

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/companion"
	"github.com/tulle-net/tulle/pkg/etcdprocess"
	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/subnet"
	"github.com/tulle-net/tulle/subnet/etcd"
)

// ownEtcd is the etcd beside this daemon, in a process that outlives it. It is nil if
// the store is elsewhere.
type ownEtcd struct {
	*companion.Keeper
	settings etcdprocess.Settings
	running  sync.WaitGroup
}

// keepEtcd keeps an embedded etcd running until ctx ends, and sets the endpoints in o
// to it. It returns nil if the options do not require one.
func keepEtcd(ctx context.Context, o *options.Options, version string, changed func()) (*ownEtcd, error) {
	if !o.Embedded.On {
		return nil, nil
	}
	s := etcdprocess.Settings{
		Dir: filepath.Join(o.StateDir, "etcd"), Listen: o.Embedded.Listen,
		CertFile: o.Etcd.CertFile, KeyFile: o.Etcd.KeyFile, CAFile: o.Etcd.CAFile,
		AnyClient: o.Embedded.AnyClient, Verbosity: o.Verbosity,
	}
	for _, path := range []*string{&s.Dir, &s.CertFile, &s.KeyFile, &s.CAFile} {
		if *path == "" {
			continue
		}
		var err error
		if *path, err = filepath.Abs(*path); err != nil { // its process runs in another folder
			return nil, err
		}
	}
	o.Etcd.Endpoints = []string{s.Endpoint()}
	e := &ownEtcd{Keeper: companion.NewKeeper(s.Spec(options.Name("etcd-embedded")), version, changed), settings: s}
	e.running.Go(func() { e.Run(ctx) })
	return e, nil
}

// etcdTimeout is the time for which the daemon waits for its etcd to start, and later for its
// etcd to end. After that the network works without it, as without any store.
const etcdTimeout = 10 * time.Second

// await waits until the etcd runs, or has failed to start.
func (e *ownEtcd) await(ctx context.Context) {
	select {
	case <-e.Settled():
	case <-ctx.Done():
	case <-time.After(etcdTimeout):
	}
}

// seed writes the network's first config as soon as the etcd answers. If the etcd has
// another one, it logs that.
func (e *ownEtcd) seed(ctx context.Context, store Store, o options.Options) {
	own, ok := store.(*etcd.Store)
	config := o.Seed()
	if !ok || config == "" {
		return
	}
	seeded := make(chan struct{})
	e.running.Go(func() {
		defer close(seeded)
		switch began, err := own.Seed(ctx, config); {
		case ctx.Err() != nil:
		case err != nil:
			klog.ErrorS(err, "Failed to write the network's first config to etcd")
		case began:
			klog.InfoS("Wrote the first network config", "config", config)
		default:
			cfg, err := own.Config(ctx, subnet.Config{})
			if ignored := o.Ignored(cfg); err == nil && len(ignored) > 0 {
				klog.InfoS("Ignoring flags for an empty etcd; it already has another config", "flags", strings.Join(ignored, " "),
					"config", string(subnet.FormatConfig(subnet.Config{Pools: cfg.Pools})), "backend", cfg.Backend.Type, "fix", "change the config in etcd, or the flags")
			}
		}
	})
	select {
	case <-seeded:
	case <-time.After(etcdTimeout):
	}
}

// end waits until the keeper has ended. The end of a container's first process kills
// all other processes, so in a container it first stops the etcd cleanly.
func (e *ownEtcd) end() {
	e.running.Wait()
	if os.Getpid() != 1 {
		if s := e.Status(); s.Process != nil {
			klog.InfoS("Leaving tulle-etcd running", "pid", s.Process.PID, "stop", e.StopCommand())
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), etcdTimeout)
	defer cancel()
	if _, err := companion.Stop(ctx, e.settings.Dir); err != nil {
		klog.ErrorS(err, "Failed to stop etcd; no acknowledged write is lost")
	}
}

// report returns the etcd's part of the status, or nil if there is none.
func (e *ownEtcd) report() *status.Etcd {
	if e == nil {
		return nil
	}
	s := e.Status()
	out := &status.Etcd{State: "not running", Problem: s.Problem}
	if p := s.Process; p != nil {
		started := p.StartedAt(time.Now())
		out.State, out.Version, out.PID, out.Started = string(p.State), p.Version, p.PID, &started
	}
	return out
}

// text returns why the etcd does not run, or "".
func (e *ownEtcd) text() string {
	if e == nil {
		return ""
	}
	if s := e.Status(); s.Problem != "" {
		return "tulle-etcd does not run: " + s.Problem
	}
	return ""
}
