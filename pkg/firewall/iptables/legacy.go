package iptables

import (
	"context"
	"errors"
	"slices"

	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/subnet"
)

// LegacyTables are a host's legacy tables, which most hosts lack. As long as the
// kernel has none in use, nothing is looked for and no command runs.
type LegacyTables struct {
	options Options
	found   *Tables
}

// OpenLegacy returns the host's legacy tables.
func OpenLegacy(o Options) *LegacyTables { return &LegacyTables{options: o} }

// Sync does Tables.Sync.
func (l *LegacyTables) Sync(ctx context.Context, r firewall.Rules) (changed bool, err error) {
	t, err := l.tables(ctx)
	if t == nil || err != nil {
		return false, err
	}
	return t.Sync(ctx, r)
}

// RemoveFlannel does Tables.RemoveFlannel.
func (l *LegacyTables) RemoveFlannel(ctx context.Context) (removed []string, err error) {
	t, err := l.tables(ctx)
	if t == nil || err != nil {
		return nil, err
	}
	return t.RemoveFlannel(ctx)
}

// tables returns the tables, or nil as long as none are in use.
func (l *LegacyTables) tables(ctx context.Context) (*Tables, error) {
	used := false
	for _, f := range subnet.Families {
		names, err := l.options.legacy(f)
		if err != nil {
			return nil, err
		}
		used = used || slices.ContainsFunc(parts[:], func(p part) bool { return slices.Contains(names, p.table) })
	}
	if !used {
		return nil, nil
	}
	if l.found == nil {
		host, err := Found(ctx, l.options)
		if err != nil {
			return nil, err
		}
		v, ok := host.Variant(Legacy)
		if !ok {
			return nil, errors.New("this host has legacy iptables tables, but no command to read them; install the package iptables")
		}
		l.found = New(v, l.options)
	}
	return l.found, nil
}
