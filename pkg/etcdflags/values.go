package etcdflags

import (
	"path"
	"strings"

	"github.com/tulle-net/tulle/pkg/flags"
)

// prefix reads a prefix of keys. Like flannel, it cleans the path.
func prefix(value string) (string, error) {
	clean := path.Clean(value)
	if !flags.Printable(value) || clean == "." {
		return "", flags.Refuse(value, "not a prefix of etcd keys", "use one like /coreos.com/network")
	}
	return clean, nil
}

func username(value string) (string, error) {
	// Neither error shows the value: a user of etcdctl may have added the password after
	// a colon.
	switch {
	case strings.ContainsRune(value, ':'):
		return "", flags.Refuse("", "contains a colon", "use the name alone, and --etcd-password-file")
	case !flags.Printable(value):
		return "", flags.Refuse("", "contains spaces or unprintable characters", "use the name of an etcd user")
	}
	return value, nil
}

func password(value string) (flags.Secret, error) { return flags.NewSecret(value), nil }
