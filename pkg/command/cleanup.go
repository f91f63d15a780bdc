package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/answer"
	"github.com/tulle-net/tulle/pkg/cniconf"
	"github.com/tulle-net/tulle/pkg/daemon"
	"github.com/tulle-net/tulle/pkg/envfile"
	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/pkg/firewall/iptables"
	"github.com/tulle-net/tulle/pkg/firewall/nft"
	"github.com/tulle-net/tulle/pkg/identity"
	"github.com/tulle-net/tulle/pkg/kernel"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/pkg/runner"
	"github.com/tulle-net/tulle/pkg/snapshot"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/wgkey"
)

// cleanUp removes from this host all that tulled made, and lists what it removed.
// An absent thing is no error.
func cleanUp(o options.Options, out io.Writer) error {
	if err := daemon.CheckPrivileges(); err != nil {
		return err
	}
	ctx := context.Background()
	if _, err := status.Dial(o.StatusSocket, options.Name("status-socket")).Report(ctx); err == nil {
		return errors.New("tulled is running and would restore what is removed; stop it first: systemctl stop tulled")
	}
	c := cleaner{dry: o.Cleanup.DryRun, gone: []string{}} // a list in JSON, also if it is empty
	if o.Output == answer.Text {
		c.out = out
	}
	c.commands(ctx, o)
	c.rules(ctx, o.Cleanup.Flannel)
	c.kernel(ctx, o.Cleanup.Flannel)
	c.file(o.SubnetFile, func(string) error { _, err := envfile.Read(o.SubnetFile); return err })
	c.file(o.CNIConfFile, cniconf.Check)
	c.file(snapshot.Path(o.StateDir), func(string) error { return nil })
	c.file(identity.Path(o.StateDir), func(string) error { return nil })
	c.file(wgkey.Path(o.StateDir), func(string) error { return nil })
	c.file(wgkey.RequestPath(o.StateDir), func(string) error { return nil })
	c.file(o.StatusSocket, func(string) error { return nil })
	a := cleanupAnswer{DryRun: c.dry, Removed: c.gone}
	for _, err := range c.failed {
		a.Failed = append(a.Failed, err.Error())
	}
	err := answer.Write(o.Output, out, "cleanup", a, func() error {
		if len(c.gone) == 0 && c.failed == nil {
			fmt.Fprintln(out, "nothing to remove: this host has nothing of tulle's")
		}
		return nil
	})
	return errors.Join(append(c.failed, err)...)
}

// cleanupAnswer is what a cleanup removed, or would remove.
type cleanupAnswer struct {
	DryRun  bool     `json:"dryRun"`
	Removed []string `json:"removed"`
	Failed  []string `json:"failed,omitempty"` // what it could not remove, and why
}

// cleaner removes things, or lists what it would remove.
type cleaner struct {
	out    io.Writer // for people; nil means nowhere
	dry    bool
	gone   []string
	failed []error
}

// removed reports a removal.
func (c *cleaner) removed(what string) {
	c.gone = append(c.gone, what)
	done := "removed "
	if c.dry {
		done = "would remove "
	}
	if c.out != nil {
		fmt.Fprintln(c.out, done+what)
	}
}

func (c *cleaner) fail(what string, err error) {
	c.failed = append(c.failed, fmt.Errorf("%s: %w", what, err))
}

// commands undoes the commands of the config that were run, while what they may need of the
// kernel is there.
func (c *cleaner) commands(ctx context.Context, o options.Options) {
	if o.StateDir == "" {
		return
	}
	recorded, bad, err := runner.Recorded(o.StateDir)
	if err != nil {
		bad = append(bad, err)
	}
	c.failed = append(c.failed, bad...)
	for _, command := range recorded {
		if !c.dry {
			if err := runner.Undo(ctx, o.StateDir, command, daemon.CommandEnv(os.Environ())); err != nil {
				c.fail(command.Key().String(), err)
				continue
			}
		}
		c.removed("what was done by " + command.Key().String())
	}
}

// rules removes firewall rules.
func (c *cleaner) rules(ctx context.Context, flannel bool) {
	tables := nft.Open("")
	tables.DryRun = c.dry
	legacy := iptables.OpenLegacy(iptables.Options{DryRun: c.dry})
	for _, part := range []struct {
		name   string
		engine firewall.Engine
	}{
		{"the nftables table inet tulle", nft.NAT{Tables: tables}},
		{"accept rules in iptables' FORWARD chain", nft.Forward{Tables: tables}},
		{"rules in legacy iptables", legacy},
	} {
		switch changed, err := part.engine.Sync(ctx, firewall.Rules{}); {
		case err != nil:
			c.fail(part.name, err)
		case changed:
			c.removed(part.name)
		}
	}
	lists := []func(context.Context) ([]string, error){tables.RemoveIPTables}
	if flannel {
		lists = append(lists, tables.RemoveFlannel, legacy.RemoveFlannel)
	}
	for _, list := range lists {
		gone, err := list(ctx)
		if err != nil {
			c.fail("rules", err)
		}
		for _, what := range gone {
			c.removed("rules: " + what)
		}
	}
}

// kernel removes routes, and devices with all that is on them.
func (c *cleaner) kernel(ctx context.Context, flannel bool) {
	k, err := kernel.New("")
	if err != nil {
		c.fail("open netlink", err)
		return
	}
	defer k.Close()
	has, err := k.Dump(ctx, netstate.Scope{})
	if err != nil {
		c.fail("dump the kernel's state", err)
		return
	}
	plan := netstate.Diff(&netstate.State{}, has)
	if flannel {
		survey, err := k.Survey(ctx)
		if err != nil {
			c.fail("list the host's devices", err)
		}
		for _, l := range survey.Links {
			deleted := func(op netstate.Op) bool { return op.Object.Key() == l.Link.Key() } // the device was adopted
			if isFlannels(l.Link) && !slices.ContainsFunc(plan, deleted) {
				plan = append(plan, netstate.Op{Verb: netstate.Delete, Object: l.Link})
			}
		}
	}
	failed := make(map[netstate.Key]bool)
	if !c.dry {
		var each netstate.Failures
		if err := k.Apply(ctx, plan); err != nil && !errors.As(err, &each) {
			c.fail("remove routes and devices", err)
			return
		}
		for _, f := range each {
			failed[f.Op.Object.Key()] = true
			c.failed = append(c.failed, f)
		}
	}
	for _, op := range plan {
		if !failed[op.Object.Key()] {
			c.removed(op.Object.String())
		}
	}
}

// isFlannels reports whether flannel made a device.
func isFlannels(l netstate.Link) bool {
	name, ok := strings.CutPrefix(l.Name, "flannel")
	return ok && name != "" && strings.ContainsAny(name[:1], ".-0") && l.Kind != "bridge"
}

// file removes a file if check accepts it as ours.
func (c *cleaner) file(path string, check func(path string) error) {
	if path == "" {
		return
	}
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = check(path)
	}
	if err == nil && !c.dry {
		err = os.Remove(path)
	}
	if err != nil {
		c.fail("left "+path+" in place", err)
		return
	}
	c.removed("file " + path)
}
