package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestDropPages(t *testing.T) {
	before := residentFile(t)
	dropPages()
	if after := residentFile(t); after >= before {
		t.Errorf("%d KiB of the program's file are in memory, as there were %d before", after, before)
	}
}

// residentFile is how many KiB of files this process has in its memory.
func residentFile(t *testing.T) (n int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssFile:")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		t.Fatal(err)
	}
	return n
}
