package command

import (
	"strings"
	"unsafe"

	"github.com/tulle-net/tulle/pkg/options"
)

// ownArguments is a copy of the process's arguments, and takes the secrets out of
// what everybody on the host reads of them in /proc. That is the very memory that
// os.Args has; args must be of it.
func ownArguments(args []string) []string {
	own := make([]string, len(args))
	for i, arg := range args {
		own[i] = strings.Clone(arg)
	}
	for _, secret := range options.Secrets(args) {
		for i := range secret {
			*(*byte)(unsafe.Add(unsafe.Pointer(unsafe.StringData(secret)), i)) = '*'
		}
	}
	return own
}
