package envfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/tulle-net/tulle/subnet"
)

const (
	maxSize = 64 << 10 // flannel writes some 200 bytes
	maxMTU  = 65535
)

// Read is Parse of a file, if it is one: what is not there wraps fs.ErrNotExist.
func Read(path string) (Env, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Env{}, err
	}
	if !info.Mode().IsRegular() {
		return Env{}, fmt.Errorf("%s is not a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return Env{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return Env{}, err
	}
	return Parse(text)
}

// Parse reads the file, by any author: tulle, flannel, which once wrote no
// more than the subnet and the MTU, or a person with an editor. Lines are taken
// as a shell would: quotes, export and comments are allowed, the last of
// several wins, an empty value is none. What is not ours to read is passed
// over.
//
// The error names every value that cannot be used. The others are returned with it:
// a wrong MTU is no reason to lose the subnet.
func Parse(text []byte) (Env, error) {
	if len(text) > maxSize {
		return Env{}, fmt.Errorf("env file: %d bytes are more than the %d allowed; delete it: the daemon writes it again", len(text), maxSize)
	}
	values := make(map[string]string)
	for line := range bytes.Lines(bytes.TrimPrefix(text, []byte("\ufeff"))) {
		if key, value, ok := assignment(string(line)); ok {
			values[key] = value
		}
	}
	var e Env
	var errs []error
	read := func(key, kind string, parse func(value string) bool) {
		if value := values[key]; value != "" && !parse(value) {
			errs = append(errs, fmt.Errorf("env file: %s=%.50q is not %s; delete the line: the daemon writes it again", key, value, kind))
		}
	}
	for _, f := range subnet.Families {
		kind := "an " + f.String() + " subnet"
		read(networkKeys[f], kind, func(value string) bool {
			// Flannel takes a list of networks where a cluster has several; ours is
			// the first.
			first, _, _ := strings.Cut(value, ",")
			return readPrefix(first, f, &e.Networks[f])
		})
		read(subnetKeys[f], kind, func(value string) bool { return readPrefix(value, f, &e.Subnets[f]) })
	}
	read(mtuKey, fmt.Sprintf("a number from 0 to %d", maxMTU), func(value string) bool {
		n, err := strconv.ParseUint(value, 10, 32)
		if err != nil || n > maxMTU {
			return false
		}
		e.MTU = int(n)
		return true
	})
	read(ipMasqKey, "true or false", func(value string) bool {
		on, err := strconv.ParseBool(value)
		e.IPMasq = on
		return err == nil
	})
	return e, errors.Join(errs...)
}

// readPrefix reads a prefix of family f, and leaves into alone if s is none.
func readPrefix(s string, f subnet.Family, into *netip.Prefix) bool {
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4In6() || subnet.FamilyOf(p.Addr()) != f {
		return false
	}
	*into = p
	return true
}

// assignment takes a line apart; ok is false for one that sets nothing.
func assignment(line string) (key, value string, ok bool) {
	line = strings.TrimSpace(line)
	if rest, cut := strings.CutPrefix(line, "export"); cut && strings.TrimLeft(rest, " \t") != rest {
		line = strings.TrimLeft(rest, " \t")
	}
	key, value, ok = strings.Cut(line, "=")
	if !ok || key == "" || key[0] == '#' {
		return "", "", false
	}
	value = strings.TrimLeft(value, " \t")
	if value != "" && (value[0] == '"' || value[0] == '\'') {
		// What follows the closing quote is a comment at best. Without one the
		// quote stays, and no value of ours has any.
		if inner, _, closed := strings.Cut(value[1:], value[:1]); closed {
			return strings.TrimSpace(key), strings.TrimSpace(inner), true
		}
		return strings.TrimSpace(key), value, true
	}
	if i := strings.IndexAny(value, " \t"); i >= 0 {
		value = value[:i]
	}
	if strings.HasPrefix(value, "#") {
		value = ""
	}
	return strings.TrimSpace(key), value, true
}
