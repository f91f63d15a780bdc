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

// kernelPackages are the packages that depend on the newest kernel, best first. Debian
// 12 has 6.12 in addition to its own 6.1. Debian 13's own is 6.12.
var kernelPackages = []string{"linux-image-6.12-cloud-amd64", "linux-image-cloud-amd64"}

// kernel is a kernel package, unpacked.
type kernel struct {
	image   string // path of the kernel's image
	modules string // path of the modules' folder, named for the kernel's release
}

func (k kernel) release() string { return "Linux " + filepath.Base(k.modules) }

// fetchKernel returns the newest kernel that apt knows. It downloads each kernel once:
// a second run reads apt's lists on this disk, and needs no network.
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
	// A new machine has no lists, and an old one lists kernels that the server has
	// withdrawn.
	if _, updateErr := output(exec.CommandContext(ctx, "apt-get", "-qq", "update")); updateErr != nil {
		return kernel{}, errors.Join(err, updateErr)
	}
	return knownKernel(ctx, cache)
}

// knownKernel returns the newest kernel in apt's lists. It takes it from the cache
// or, once, downloads it.
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

	// Unpack in another folder and then rename it, so that neither another run nor an
	// interrupted one leaves half a kernel.
	temp, err := os.MkdirTemp(cache, "fetch-")
	if err != nil {
		return kernel{}, err
	}
	defer os.RemoveAll(temp)
	// Root's apt downloads as a user that may not enter this folder. It then warns that
	// it downloads as root. The option says that this is intended.
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

// kernelDepends matches the dependency of a kernelPackages package: the kernel
// itself, in one version.
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
		err = errors.New("the packages depend on no kernel")
	}
	return "", "", fmt.Errorf("apt's lists contain no kernel, want one of %q (of Debian, for amd64): %w", kernelPackages, err)
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
