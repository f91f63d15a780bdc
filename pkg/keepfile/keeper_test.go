package keepfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

const content = "FLANNEL_MTU=1450\n"

// start runs a keeper until the test ends.
func start(t testing.TB) *Keeper {
	t.Helper()
	k := New(budget.New().Files())
	run(t, k.Run)
	return k
}

func run(t testing.TB, f func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { f(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
}

func set(t testing.TB, k *Keeper, path, content string) {
	t.Helper()
	if err := k.Set(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	has(t, path, content, 0o644)
}

// watched waits until Run has the watch on.
func watched(t testing.TB, k *Keeper) {
	t.Helper()
	kerneltest.Eventually(t, 10*time.Second, func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, f := range k.files {
			if time.Until(f.due) < interval/2 {
				return fmt.Errorf("%s is still to be looked at", f.path)
			}
		}
		return nil
	})
}

// allKept waits until no file is failing. A file may be in place before the keeper
// knows it: the folder is still to be synced.
func allKept(t testing.TB, k *Keeper) {
	t.Helper()
	kerneltest.Eventually(t, 10*time.Second, func() error {
		if failing := k.Failing(); len(failing) > 0 {
			return fmt.Errorf("failing: %v", failing)
		}
		return nil
	})
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestKeeps checks that each foreign change of a file is undone.
func TestKeeps(t *testing.T) {
	for _, c := range []struct {
		name    string
		disturb func(t *testing.T, path string)
	}{
		{"deleted", func(t *testing.T, path string) { check(t, os.Remove(path)) }},
		{"changed", func(t *testing.T, path string) { put(t, path, "FLANNEL_MTU=1500\n", 0o644) }},
		{"truncated", func(t *testing.T, path string) { check(t, os.Truncate(path, 3)) }},
		{"emptied", func(t *testing.T, path string) { check(t, os.Truncate(path, 0)) }},
		{"longer", func(t *testing.T, path string) { put(t, path, content+content, 0o644) }},
		{"chmod", func(t *testing.T, path string) { check(t, os.Chmod(path, 0)) }},
		{"moved away", func(t *testing.T, path string) { check(t, os.Rename(path, path+".old")) }},
		{"moved over", func(t *testing.T, path string) {
			put(t, path+".new", "FLANNEL_MTU=1500\n", 0o644)
			check(t, os.Rename(path+".new", path))
		}},
		{"replaced by a folder that goes", func(t *testing.T, path string) {
			check(t, os.Mkdir(path+".folder", 0o755))
			swap(t, path+".folder", path)
			kerneltest.Eventually(t, 10*time.Second, func() error {
				if log.Count("Failed to write a file", path) == 0 {
					return errors.New("nothing is said of it")
				}
				return nil
			})
			check(t, os.Remove(path))
		}},
		{"replaced by a link", func(t *testing.T, path string) {
			put(t, path+".elsewhere", "FLANNEL_MTU=1500\n", 0o600)
			check(t, os.Symlink(path+".elsewhere", path+".link"))
			swap(t, path+".link", path)
			becomes(t, path+".elsewhere", content, 0o644)
			check(t, os.Remove(path))
		}},
		{"its folder deleted", func(t *testing.T, path string) { removeAll(t, filepath.Dir(path)) }},
		{"its folder moved away", func(t *testing.T, path string) {
			check(t, os.Rename(filepath.Dir(path), filepath.Dir(path)+".old"))
		}},
		{"its folder replaced", func(t *testing.T, path string) {
			check(t, os.Rename(filepath.Dir(path), filepath.Dir(path)+".old"))
			put(t, path, "FLANNEL_MTU=1500\n", 0o644)
		}},
		{"all folders deleted", func(t *testing.T, path string) { removeAll(t, filepath.Dir(filepath.Dir(path))) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "run", "flannel", "subnet.env")
			k := start(t)
			set(t, k, path, content)
			watched(t, k)
			c.disturb(t, path)
			becomes(t, path, content, 0o644)
			// The watch goes on where the file is now.
			watched(t, k)
			check(t, os.Remove(path))
			becomes(t, path, content, 0o644)
			allKept(t, k)
		})
	}
}

// swap exchanges what is at two paths in one step, so that the keeper never finds
// nothing there.
func swap(t testing.TB, a, b string) {
	t.Helper()
	check(t, unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE))
}

// removeAll removes a folder, as often as it takes.
func removeAll(t *testing.T, path string) {
	t.Helper()
	kerneltest.Eventually(t, 10*time.Second, func() error { return os.RemoveAll(path) })
}

// A file that a link leads to is kept there, in a folder of its own.
func TestKeepsThroughLink(t *testing.T) {
	dir := t.TempDir()
	path, target := filepath.Join(dir, "run", "subnet.env"), filepath.Join(dir, "etc", "subnet.env")
	symlink(t, "../etc/subnet.env", path)
	k := start(t)
	if err := k.Set(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	watched(t, k)
	put(t, target, "changed", 0o644)
	becomes(t, target, content, 0o644)
	// The link goes elsewhere now.
	check(t, os.Remove(path))
	symlink(t, "../opt/subnet.env", path)
	becomes(t, filepath.Join(dir, "opt", "subnet.env"), content, 0o644)
}

func TestUnchangedIsNotWritten(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "subnet.env"), filepath.Join(dir, "other")
	put(t, path, content, 0o644)
	before := inode(t, path)
	k := start(t)
	set(t, k, path, content)
	set(t, k, path, content)
	watched(t, k)
	// Events, but no change. The other file's is seen after them.
	set(t, k, other, content)
	watched(t, k)
	put(t, path, content, 0o644)
	check(t, os.Remove(other))
	becomes(t, other, content, 0o644)
	watched(t, k)
	if after := inode(t, path); after != before {
		t.Error("it was rewritten")
	}
	set(t, k, path, "other\n")
	if after := inode(t, path); after == before {
		t.Error("it was written in place")
	}
	if err := k.Set(path, []byte("other\n"), 0o600); err != nil {
		t.Error(err)
	}
	has(t, path, "other\n", 0o600)
}

// A full disk is logged once, and its end once.
func TestDiskFull(t *testing.T) {
	dir := tmpfs(t, "size=64k")
	path, ballast := filepath.Join(dir, "subnet.env"), filepath.Join(dir, "ballast")
	f, err := os.Create(ballast)
	check(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	check(t, f.Close())
	k := start(t)
	if err := k.Set(path, []byte(content), 0o644); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("got %v", err)
	}
	if err := k.Failing()[path]; !errors.Is(err, unix.ENOSPC) || len(k.Failing()) != 1 {
		t.Errorf("failing: %v", k.Failing())
	}
	kerneltest.Eventually(t, 10*time.Second, func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		if n := k.files[path].failures; n < 3 {
			return fmt.Errorf("failed %d times", n)
		}
		return nil
	})
	noTemporary(t, dir)
	check(t, os.Remove(ballast))
	becomes(t, path, content, 0o644)
	allKept(t, k)
	if a, b := log.Count("Failed to write a file", path), log.Count("File up to date again", path); a != 1 || b != 1 {
		t.Errorf("logged %d times, and its end %d times", a, b)
	}
}

func TestReadOnly(t *testing.T) {
	dir := tmpfs(t, "size=64k")
	path := filepath.Join(dir, "subnet.env")
	k := start(t)
	set(t, k, path, content)
	watched(t, k)
	remount := func(flags uintptr) { check(t, unix.Mount("", dir, "", unix.MS_REMOUNT|flags, "")) }
	remount(unix.MS_RDONLY)
	if err := k.Set(path, []byte("new"), 0o644); !errors.Is(err, unix.EROFS) {
		t.Errorf("got %v", err)
	}
	has(t, path, content, 0o644)
	remount(0)
	becomes(t, path, "new", 0o644)
}

// Who stops with a file half written and starts again has no use for the half.
func TestCrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "subnet.env")
	f, err := create(path)
	check(t, err)
	_, err = f.WriteString("FLANNEL_M")
	check(t, err)
	check(t, f.Close()) // as the kernel does for the dead
	k := start(t)
	set(t, k, path, content)
	noTemporary(t, filepath.Dir(path))
}

// The files of one folder that is there under two names are all kept.
func TestOneFolderTwoNames(t *testing.T) {
	dir := t.TempDir()
	mkdir(t, filepath.Join(dir, "run"))
	symlink(t, "run", filepath.Join(dir, "var"))
	k := start(t)
	paths := []string{filepath.Join(dir, "run", "a"), filepath.Join(dir, "var", "b")}
	for _, path := range paths {
		set(t, k, path, content)
	}
	watched(t, k)
	for _, path := range paths {
		check(t, os.Remove(path))
		becomes(t, path, content, 0o644)
	}
}

// A file system mounted over the folder hides the file without a word. The next
// look finds that, and watches the folder that is there now.
func TestMountedOver(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "subnet.env")
	k := start(t)
	set(t, k, path, content)
	watched(t, k)
	check(t, unix.Mount("tulle-test", dir, "tmpfs", 0, "size=64k"))
	unmount := sync.OnceFunc(func() { check(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	t.Cleanup(unmount)
	k.changed("", "", true)
	becomes(t, path, content, 0o644)
	watched(t, k)
	check(t, os.Remove(path))
	becomes(t, path, content, 0o644)
	watched(t, k)
	unmount()
	k.changed("", "", true)
	watched(t, k)
	check(t, os.Remove(path))
	becomes(t, path, content, 0o644)
}

// When the kernel lost events, every file is looked at; a watch that is gone
// belongs to no file.
func TestWatchEvents(t *testing.T) {
	w, err := newWatch()
	check(t, err)
	defer w.close()
	dir := t.TempDir()
	if w.watch([]string{dir}) || !w.watch([]string{dir}) || w.watch([]string{dir, filepath.Join(dir, "none")}) {
		t.Error("what was watched before is not known")
	}
	var got []string
	changed := func(folder, name string, everywhere bool) {
		got = append(got, fmt.Sprintf("%s %s %t", strings.TrimPrefix(folder, dir), name, everywhere))
	}
	number := w.numbers[dir]
	w.event(number, unix.IN_MODIFY, "file", changed)
	w.event(-1, unix.IN_Q_OVERFLOW, "", changed)
	w.event(number+1, unix.IN_MODIFY, "file", changed)
	w.event(number, unix.IN_IGNORED, "", changed)
	w.event(number, unix.IN_MODIFY, "file", changed)
	if want := []string{" file false", "  true", "  false"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if w.watch([]string{dir}) {
		t.Error("a watch that is gone is still there")
	}
}

// A program that changes the file at any rate never keeps it wrong for longer than a
// turn, costs a share of the disk's time, and is reported once.
func TestFight(t *testing.T) {
	const writing = 2 * time.Millisecond
	for _, every := range []time.Duration{10 * time.Second, time.Second, 100 * time.Millisecond, 10 * time.Millisecond} {
		t.Run(every.String(), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "subnet.env")
			bubbletest.Test(t, func(t *testing.T) {
				var wrote atomic.Int64
				k := New(budget.New().Account(budget.FilesLimit, func() func() time.Duration {
					return func() time.Duration { wrote.Add(1); return writing }
				}))
				set(t, k, path, content)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go k.run(ctx, nil)
				synctest.Wait()
				begin, spoiled := time.Now(), time.Time{}
				var longest time.Duration
				for time.Since(begin) < 30*max(every, time.Second) {
					if isFile(path, content, 0o644) == nil {
						if !spoiled.IsZero() {
							longest = max(longest, time.Since(spoiled)-every)
						}
						spoiled = time.Now()
						put(t, path, "mine!", 0o644)
					}
					k.changed(filepath.Dir(path), filepath.Base(path), false)
					<-time.After(every)
				}
				if longest > budget.Turn+settle {
					t.Errorf("wrong for %v", longest)
				}
				if share := float64(wrote.Load()) * writing.Seconds() / time.Since(begin).Seconds(); share > 0.03+0.5/time.Since(begin).Seconds() {
					t.Errorf("took %.1f%% of the disk's time", 100*share)
				}
				if f, ok := k.Fights()[path]; !ok || f.Healed < 20 {
					t.Errorf("fights: %v", k.Fights())
				}
				if lost := k.Failing()[path]; (lost != nil) != (every <= 10*time.Millisecond) {
					t.Errorf("failing: %v", lost)
				}
				if n := log.Count("keeps changing a file", path); n != 1 {
					t.Errorf("logged %d times", n)
				}
				// New content is written at once nevertheless.
				if err := k.Set(path, []byte("new"), 0o644); err != nil {
					t.Errorf("got %v", err)
				}
				has(t, path, "new", 0o644)
				put(t, path, "mine!", 0o644)
				k.changed(filepath.Dir(path), filepath.Base(path), false)
				<-time.After(budget.Turn + settle)
				synctest.Wait()
				has(t, path, "new", 0o644)
				<-time.After(budget.Quiet + 15*time.Second)
				synctest.Wait()
				if err := k.Failing()[path]; err != nil || len(k.Fights()) > 0 || log.Count("Other programs no longer change the file", path) != 1 {
					t.Errorf("it is over, but: %v, %v", err, k.Fights())
				}
				if n := log.Count("Restored a file", path); n > 20 {
					t.Errorf("%d log lines that it was restored", n)
				}
			})
		})
	}
}

// Without a watch a file is looked at each minute, and one that cannot be
// written is tried again.
func TestWithoutWatch(t *testing.T) {
	dir := t.TempDir()
	path, blocked := filepath.Join(dir, "subnet.env"), filepath.Join(dir, "folder")
	bubbletest.Test(t, func(t *testing.T) {
		k := New(budget.New().Files())
		set(t, k, path, content)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go k.run(ctx, nil)
		synctest.Wait()
		check(t, os.Remove(path))
		<-time.After(interval + time.Second)
		synctest.Wait()
		has(t, path, content, 0o644)

		mkdir(t, blocked)
		if err := k.Set(blocked, []byte(content), 0o644); err == nil || !strings.Contains(err.Error(), "is a folder") {
			t.Errorf("got %v", err)
		}
		<-time.After(10 * time.Minute)
		synctest.Wait()
		failures := func() int {
			k.mu.Lock()
			defer k.mu.Unlock()
			return k.files[blocked].failures
		}
		before := failures()
		if before < 60 || before > 130 {
			t.Errorf("tried %d times in ten minutes", before)
		}
		// Changes hasten the next try, and no more than that.
		for range 6000 {
			k.changed(dir, "folder", false)
			<-time.After(10 * time.Millisecond)
		}
		if n := failures() - before; n < 50 || n > 65 {
			t.Errorf("tried %d times in a minute of changes", n)
		}
		check(t, os.Remove(blocked))
		<-time.After(interval)
		synctest.Wait()
		has(t, blocked, content, 0o644)
		if n := log.Count("Failed to write a file", blocked); n != 1 {
			t.Errorf("logged %d times", n)
		}
	})
}

// Sets from all sides while others meddle end with what was set last.
func TestSetAtOnce(t *testing.T) {
	dir := t.TempDir()
	k := start(t)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			path := filepath.Join(dir, fmt.Sprint(i%2))
			for n := range 20 {
				if err := k.Set(path, fmt.Append(nil, i, n), 0o644); err != nil {
					t.Error(err)
				}
				if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Error(err)
				}
				k.Failing()
			}
		})
	}
	wg.Wait()
	for i := range 2 {
		set(t, k, filepath.Join(dir, fmt.Sprint(i)), content)
	}
	watched(t, k)
	for i := range 2 {
		has(t, filepath.Join(dir, fmt.Sprint(i)), content, 0o644)
	}
}
