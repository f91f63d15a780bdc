package flags

import (
	"fmt"
	"iter"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
)

// To returns a setter that parses a value with read, and stores it in a field.
func To[T any](field *T, read func(string) (T, error)) func(string) error {
	return func(value string) (err error) {
		*field, err = read(value)
		return err
	}
}

// Append returns a setter that parses a value with read, and appends it to a field.
func Append[T any](field *[]T, read func(string) (T, error)) func(string) error {
	return func(value string) error {
		v, err := read(value)
		*field = append(*field, v)
		return err
	}
}

// checked returns a setter that only checks the value: the flag has taken effect before.
func checked[T any](read func(string) (T, error)) func(string) error {
	return func(value string) error {
		_, err := read(value)
		return err
	}
}

// Each of the following functions reads one kind of value. The value is never empty.

// Bool reads what strconv.ParseBool accepts, like true or false.
func Bool(value string) (bool, error) {
	b, err := strconv.ParseBool(value)
	if err != nil {
		return false, Refuse(value, "not a boolean", "use true or false")
	}
	return b, nil
}

// Whole returns a reader of numbers in a range. Like flannel, it also accepts 0x10 and
// 1_000.
func Whole(least, most int) func(string) (int, error) {
	return func(value string) (int, error) {
		n, err := strconv.ParseInt(value, 0, strconv.IntSize)
		if err != nil || int(n) < least || int(n) > most {
			kind := fmt.Sprintf("from %d to %d", least, most)
			if most == math.MaxInt32 {
				kind = fmt.Sprintf("of %d or more", least)
			}
			return 0, Refuse(value, "not a whole number "+kind, "use a plain number, without a unit")
		}
		return int(n), nil
	}
}

// File reads a file's path.
func File(value string) (string, error) {
	if strings.HasSuffix(value, "/") {
		return "", Refuse(value, "a folder", "give the path of a file")
	}
	return Folder(value)
}

// Folder reads a folder's path.
func Folder(value string) (string, error) {
	if strings.ContainsFunc(value, unprintable) {
		return "", Refuse(value, "unprintable path", "use another path")
	}
	return value, nil
}

// Printable reports whether a value has neither spaces nor unprintable characters.
func Printable(value string) bool {
	return !strings.ContainsFunc(value, func(r rune) bool { return unprintable(r) || unicode.IsSpace(r) })
}

// unprintable reports whether r cannot be printed, or replaces bytes that are not UTF-8.
func unprintable(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }

// Port reads the number of a port, which may be 0.
func Port(value string) (uint16, error) {
	n, err := Whole(0, math.MaxUint16)(value)
	return uint16(n), err
}

// Address reads an IP address.
func Address(value string) (netip.Addr, error) {
	a, err := netip.ParseAddr(value)
	if err != nil {
		return netip.Addr{}, Refuse(value, "not an IP address", "use one like 192.0.2.7 or 2001:db8::7")
	}
	return a.Unmap(), nil
}

// Items returns the parts of a comma-separated list. It skips empty ones.
func Items(list string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for item := range strings.SplitSeq(list, ",") {
			if item = strings.TrimSpace(item); item != "" && !yield(item) {
				return
			}
		}
	}
}

// IsHost reports whether name, the host name in a URL with this host, is an address or can
// be a DNS name.
func IsHost(host, name string) bool {
	if strings.HasPrefix(host, "[") {
		a, err := netip.ParseAddr(name)
		return err == nil && a.Is6()
	}
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._", r)
	})
}
