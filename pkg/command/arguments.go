package command

import (
	"strings"
	"unsafe"

	"github.com/tulle-net/tulle/pkg/options"
)

// ownArguments returns a copy of the process's arguments, and overwrites the secrets
// that every user of the host could read in /proc. That is the memory of os.Args, so
// args must share it.
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
