// Command vmtest runs Go tests inside a small QEMU machine. It is for tests that need
// what the host's kernel may lack: the ipip, ip6_tunnel and wireguard modules, and
// root over all of it.
//
//	go run ./pkg/test/vmtest [flags] PACKAGE...
//
// Such tests are in files with the build tag vm, so that an ordinary go test neither
// runs nor skips them. vmtest builds the packages with that tag. It packs the test
// binaries, the modules and a few tools of this host into an initramfs. Then it boots
// Debian's cloud kernel on it and prints the tests' output. It ignores packages
// without such a file, so ./... finds every one. -run chooses tests by name instead,
// tagged or not. With -flannel it builds with the tag flannel, too, and adds our daemons, etcd
// and flannel's daemon to the image. With -also it builds with one more tag.
//
// These are all failures: a failed test, a skipped one, a package that runs no test,
// a kernel that panics, and a machine that ends before it has reported. The last line
// says "N passed, N failed".
//
// The machine is emulated (TCG): it needs no KVM and no privilege on the host. It
// needs the Debian packages qemu-system-x86 and xz-utils, and those of the tools it
// copies. apt-get downloads the kernel into the user's cache folder, tulle/vm. Only
// the renewal of apt's lists, if they are missing or too old, needs root.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

type options struct {
	modules []string
	tools   []string
	run     string
	also    string
	flannel bool
	timeout time.Duration
}

func main() {
	// The machine's first process is this same program, so both sides always use the
	// same protocol.
	if os.Getpid() == 1 && len(os.Args) == 2 && os.Args[1] == guestArg {
		guest()
	}

	modules := flag.String("modules", "bridge,dummy,ip6_tunnel,ipip,nf_tables,nft_chain_nat,nft_masq,tun,veth,vxlan,wireguard", "kernel `modules` to load, with those that they depend on")
	tools := flag.String("tools", "bridge,ip,ping,/bin/sh", "this host's `programs` to put into the machine, each NAME or NAME=PATH")
	run := flag.String("run", "", "run the tests that match `regexp`, tagged vm or not")
	also := flag.String("also", "", "also run the tests in files with the tags vm and `tag`")
	flannel := flag.Bool("flannel", false, "run the tests in files with the tags vm and flannel, with our daemons, etcd and flanneld")
	timeout := flag.Duration("timeout", 10*time.Minute, "end the machine after this `time`")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go run ./pkg/test/vmtest [flags] PACKAGE...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}

	// The kernel ends QEMU when the thread that started it ends (Pdeathsig).
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := host(ctx, options{fields(*modules), fields(*tools), *run, *also, *flannel, *timeout}, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "vmtest:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func fields(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// host builds the machine, runs it and reports whether everything passed.
func host(ctx context.Context, opt options, patterns []string) (bool, error) {
	began := time.Now()
	qemu, err := findQEMU() // Print this first, because the following may take some time.
	if err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "vmtest-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)

	tags := tag
	if opt.also != "" {
		tags += "," + opt.also
	}
	if opt.flannel {
		tags += ",flannel"
		opt.modules = append(opt.modules, "br_netfilter") // flanneld does not start without
		if opt.tools, err = addDaemons(ctx, opt.tools, dir); err != nil {
			return false, err
		}
	}
	pkgs, err := findPackages(ctx, patterns, tags, opt.run)
	if err != nil {
		return false, err
	}
	k, err := fetchKernel(ctx)
	if err != nil {
		return false, err
	}
	im := newImage()
	orders := job{Timeout: opt.timeout}
	if orders.Modules, err = addModules(ctx, im, k, opt.modules); err != nil {
		return false, err
	}
	if orders.Tests, err = addTests(ctx, im, dir, tags, pkgs); err != nil {
		return false, err
	}
	if err := addSystem(ctx, im, orders, opt.tools); err != nil {
		return false, err
	}
	initrd := filepath.Join(dir, "initrd")
	if err := im.writeFile(initrd); err != nil {
		return false, err
	}

	fmt.Printf("vmtest: %s, made in %.1fs\n", k.release(), time.Since(began).Seconds())
	began = time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, opt.timeout,
		fmt.Errorf("timed out after %v (-timeout)", opt.timeout))
	defer cancel()
	results, err := boot(ctx, qemu, k.image, initrd, os.Stdout)
	if err != nil && !errors.Is(err, errEarlyEnd) {
		return false, err
	}
	sum := judge(orders.Tests, results, opt.run != "", err)
	for _, line := range sum.lines {
		fmt.Println(line)
	}
	fmt.Printf("vmtest: the machine ran for %.1fs\n", time.Since(began).Seconds())
	fmt.Println(sum)
	return sum.ok(), nil
}
