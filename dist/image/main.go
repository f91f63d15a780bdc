// Command image makes tulle's container image, for all platforms, from the archives
// of a release. It writes an OCI image layout into a folder, without a daemon,
// without root and without a network. The same archives give the same image.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string, epoch string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	release := flags.String("release", "", "`folder` with the archives of a release")
	to := flags.String("to", "", "new `folder` for the image")
	version := flags.String("version", "", "the release's version")
	revision := flags.String("revision", "", "the commit that it was built from, if known")
	if err := flags.Parse(args); err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH is %.40q; set it to the commit's time: git log -1 --format=%%ct", epoch)
	}
	if *release == "" || *to == "" || *version == "" || flags.NArg() > 0 {
		return fmt.Errorf("needs -release, -to and -version, and no arguments")
	}
	archives, err := open(*release, *version)
	if err != nil {
		return err
	}
	about := about{version: *version, revision: *revision, created: time.Unix(seconds, 0).UTC()}
	// A layout that exists is complete.
	part := filepath.Clean(*to) + ".part"
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	if _, err := os.Lstat(*to); err == nil {
		return fmt.Errorf("%s exists; remove it", *to)
	}
	if err := write(layout(part), archives, about); err != nil {
		return err
	}
	return os.Rename(part, *to)
}

// write writes the image of archives.
func write(l layout, archives []archive, a about) error {
	var images []descriptor
	for _, from := range archives {
		files, err := from.files()
		if err != nil {
			return err
		}
		image, err := l.image(from.platform, files, a)
		if err != nil {
			return err
		}
		images = append(images, image)
	}
	return l.index(images, a)
}
