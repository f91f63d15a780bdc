package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// kernelPackages are the packages that stand for a kernel, best first: Debian
// 12 carries 6.12 beside its own 6.1, Debian 13's own is 6.12.
var kernelPackages = []string{"linux-image-6.12-cloud-amd64", "linux-image-cloud-amd64"}

// kernel is a kernel package, unpacked.
type kernel struct {
	image   string // what boots
	modules string // the folder of its modules, named by its release
}

func (k kernel) release() string { return "Linux " + filepath.Base(k.modules) }

// fetchKernel gives the newest kernel apt knows of. It is downloaded once: a
// second run asks apt's lists, which are on this disk, and no network.
func fetchKernel(ctx context.Context) (kernel, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return kernel{}, fmt.Errorf("finding a folder to keep the kernel in: %w", err)
	}
	cache = filepath.Join(cache, "tulle", "vm")
	k, err := knownKernel(ctx, cache)
	if err == nil || ctx.Err() != nil {
		return k, err
	}
	// A new machine has no lists, an old one those of kernels long withdrawn.
	if _, updateErr := output(exec.CommandContext(ctx, "apt-get", "-qq", "update")); updateErr != nil {
		return kernel{}, errors.Join(err, updateErr)
	}
	return knownKernel(ctx, cache)
}

// knownKernel gives the newest kernel in apt's lists, out of the cache or, once,
// off the network.
func knownKernel(ctx context.Context, cache string) (kernel, error) {
	name, version, err := newestKernel(ctx)
	if err != nil {
		return kernel{}, err
	}
	dir := filepath.Join(cache, name+"_"+version)
	if k, err := openKernel(dir); err == nil {
		return k, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return kernel{}, err
	}

	// Unpacked beside its place and then moved there: another run, or one that
	// was stopped half way, never leaves half a kernel.
	temp, err := os.MkdirTemp(cache, "fetch-")
	if err != nil {
		return kernel{}, err
	}
	defer os.RemoveAll(temp)
	// Root's apt downloads as a user who may not enter this folder, and warns
	// that it does it as root then; the option says that this is meant.
	get := exec.CommandContext(ctx, "apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", name+"="+version)
	get.Dir = temp
	if _, err := output(get); err != nil {
		return kernel{}, fmt.Errorf("downloading %s: %w", name, err)
	}
	debs, _ := filepath.Glob(filepath.Join(temp, "*.deb"))
	if len(debs) != 1 {
		return kernel{}, fmt.Errorf("downloading %s: apt-get left %d packages", name, len(debs))
	}
	root := filepath.Join(temp, "root")
	if _, err := output(exec.CommandContext(ctx, "dpkg-deb", "-x", debs[0], root)); err != nil {
		return kernel{}, fmt.Errorf("unpacking %s: %w", name, err)
	}
	if _, err := openKernel(root); err != nil {
		return kernel{}, err
	}
	if err := os.Rename(root, dir); err != nil && !errors.Is(err, os.ErrExist) {
		return kernel{}, err
	}
	return openKernel(dir)
}

// kernelDepends matches what the package that stands for a kernel asks for:
// the kernel itself, of one version.
var kernelDepends = regexp.MustCompile(`(?m)^Depends: (linux-image-\S+) \(= (\S+)\)`)

func newestKernel(ctx context.Context) (name, version string, err error) {
	for _, p := range kernelPackages {
		var out []byte
		out, err = output(exec.CommandContext(ctx, "apt-cache", "show", "--no-all-versions", p))
		if m := kernelDepends.FindSubmatch(out); m != nil {
			return string(m[1]), string(m[2]), nil
		}
	}
	if err == nil {
		err = errors.New("they name no kernel")
	}
	return "", "", fmt.Errorf("apt's lists hold no kernel, looked for %q (they are Debian's, for amd64): %w", kernelPackages, err)
}

func openKernel(dir string) (kernel, error) {
	images, _ := filepath.Glob(filepath.Join(dir, "boot", "vmlinuz-*"))
	modules, _ := filepath.Glob(filepath.Join(dir, "lib", "modules", "*"))
	if modules == nil { // since Debian 13
		modules, _ = filepath.Glob(filepath.Join(dir, "usr", "lib", "modules", "*"))
	}
	if len(images) != 1 || len(modules) != 1 {
		return kernel{}, fmt.Errorf("%s holds %d kernels and %d folders of modules, want one of each", dir, len(images), len(modules))
	}
	return kernel{image: images[0], modules: modules[0]}, nil
}
