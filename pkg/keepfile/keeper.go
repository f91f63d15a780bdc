package keepfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/pkg/trouble"
)

// ErrContested is a file that another program changes so often that no reader can
// rely on it.
var ErrContested = errors.New("the file is wrong more often than right; stop the program that changes it, or name another file")

// Keeper has files be what they were set to: Set writes one, and Run writes it
// again when it could not be written, or when others delete or change it. A file
// that holds what is wanted is not written. Only one look at a file is under way at a
// time, so that a change by Set and one by others cannot cross.
type Keeper struct {
	wake    retry.Wakeup    // something is due
	account *budget.Account // what it costs to restore files

	look sync.Mutex // held while a file is read or written

	mu     sync.Mutex
	files  map[string]*file
	fights budget.Fights[string] // by path
}

// file is what is known of one.
type file struct {
	path  string
	thing Thing
	hops  []string // from path to what it leads to, as last seen

	outcome   trouble.Outcome // of keeping it as it was set
	failures  int             // to write it, in a row
	due       time.Time       // when to look at it next
	notBefore time.Time       // even if it changes

	heard    time.Time // when a change was heard of first since it was right; zero while none was
	restored time.Time // when it was written last because of others
}

// New keeps no file yet. What it writes because of others is on account.
func New(account *budget.Account) *Keeper {
	return &Keeper{wake: retry.NewWakeup(), account: account, files: make(map[string]*file)}
}

// Thing is what a Keeper keeps at a path.
type Thing interface {
	// IsRight reports whether the thing is at path, which is no symbolic link.
	IsRight(path string) bool
	// Write puts the thing at path, which may be a symbolic link.
	Write(path string) error
}

// Set keeps a file at path with this content and the permissions of mode. It
// writes the file, see Write; after an error, which is logged, Run retries.
func (k *Keeper) Set(path string, content []byte, mode fs.FileMode) error {
	return k.Keep(path, regular{bytes.Clone(content), mode.Perm()})
}

// Keep keeps t at path. It writes t at once; after an error, which is logged, Run
// retries.
func (k *Keeper) Keep(path string, t Thing) error {
	path = filepath.Clean(path)
	k.look.Lock()
	defer k.look.Unlock()
	k.mu.Lock()
	f := k.files[path]
	if f == nil {
		f = &file{path: path, outcome: trouble.Outcome{Failed: "Failed to write a file; retrying", Works: "File up to date again"}}
		k.files[path] = f
	}
	f.thing = t
	k.mu.Unlock()
	err := k.keep(f, true)
	if err == nil {
		k.mu.Lock()
		f.hasten(time.Now()) // Run watches it from then on
		k.mu.Unlock()
	}
	k.wake.Wake()
	return err
}

// Failing returns by path why files are not, or seldom are, as they were set.
func (k *Keeper) Failing() map[string]error {
	k.mu.Lock()
	defer k.mu.Unlock()
	failing, now := make(map[string]error), time.Now()
	for path, f := range k.files {
		if err := f.outcome.Err(); err != nil {
			failing[path] = err
		} else if fight, ok := k.fights.Of(path, now); ok && fight.Lost() {
			failing[path] = fmt.Errorf("%w: %s", ErrContested, fight)
		}
	}
	return failing
}

// Fights returns by path the files that others keep changing.
func (k *Keeper) Fights() map[string]budget.Fight {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.fights.All(time.Now())
}

// Run keeps the files until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	w, err := newWatch()
	if err != nil {
		klog.ErrorS(err, "Failed to watch files; polling them", "interval", interval)
		k.run(ctx, nil)
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { w.read(k.changed) })
	k.run(ctx, w)
	w.close()
	wg.Wait()
}
