package iptables

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
)

// Version is the version of the commands.
type Version [3]int

// modern is the first version that knows --random-fully, and has a restore that waits
// for the lock.
var modern = Version{1, 6, 2}

func (v Version) before(o Version) bool { return slices.Compare(v[:], o[:]) < 0 }

// RandomPorts reports whether the commands can masquerade to fully random ports.
func (v Version) RandomPorts() bool { return !v.before(modern) }

func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// versionPattern matches the version in a command's output. Commands before 1.8 know
// only one variant. iptables-save before 1.8 writes the tables instead, with its
// version above.
var versionPattern = regexp.MustCompile(`v(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?: \((legacy|nf_tables)\))?`)

// maxVersionOutput is the limit of a command's output.
const maxVersionOutput = 4 << 10

func readVersion(said string) (v Version, k Kind, ok bool) {
	m := versionPattern.FindStringSubmatch(said)
	if m == nil {
		return v, k, false
	}
	for i := range v {
		v[i], _ = strconv.Atoi(m[1+i]) // the last may be missing
	}
	if m[4] == "nf_tables" {
		return v, NFT, true
	}
	return v, Legacy, true
}

// version returns the version of a command.
func (o Options) version(ctx context.Context, name string) (Version, Kind, error) {
	var said []byte
	err := o.run(ctx, "", func(r io.Reader) (err error) {
		if said, err = io.ReadAll(io.LimitReader(r, maxVersionOutput)); err != nil {
			return err
		}
		return discard(r)
	}, name, "--version")
	v, k, ok := readVersion(string(said))
	switch {
	case ok:
		return v, k, nil
	case err == nil:
		err = fmt.Errorf("%s prints no version", name)
	}
	return v, k, err
}
