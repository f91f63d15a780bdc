package kernel

import (
	"fmt"
	"runtime"

	"github.com/vishvananda/netns"
)

// inNamespace runs f on a thread in the network namespace at path. An empty path is
// the process's own.
func inNamespace(path string, f func() error) error {
	if path == "" {
		return f()
	}
	done := make(chan error, 1)
	go func() {
		// Never unlocked: the thread ends with the goroutine, so that no
		// other goroutine can find itself in a foreign namespace.
		runtime.LockOSThread()
		done <- func() error {
			ns, err := netns.GetFromPath(path)
			if err != nil {
				return fmt.Errorf("open network namespace %s: %w", path, err)
			}
			defer ns.Close()
			if err := netns.Set(ns); err != nil {
				return fmt.Errorf("enter network namespace %s: %w", path, err)
			}
			return f()
		}()
	}()
	return <-done
}
