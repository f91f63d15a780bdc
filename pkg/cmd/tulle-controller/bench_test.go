package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// BenchmarkNodesAtOnce gives podCIDRs to Nodes as large as real ones, all of them there
// when the program starts as a process of its own. It reports the time until each has
// its podCIDRs, until the first write, and the memory of the process. The times include
// what the server in this process needs.
func BenchmarkNodesAtOnce(b *testing.B) {
	for _, nodes := range []int{500, 5000} {
		b.Run(strconv.Itoa(nodes), func(b *testing.B) {
			for range b.N {
				c := newCluster(b)
				c.seed(nodes)
				began := time.Now()
				p := c.launch("--cluster-cidr=10.0.0.0/10")
				kerneltest.Eventually(b, patience, func() error {
					if c.Asked("PATCH") == 0 {
						return errNone
					}
					return nil
				})
				first := time.Since(began)
				c.awaitAll()
				b.ReportMetric(time.Since(began).Seconds(), "s/all")
				b.ReportMetric(first.Seconds(), "s/first")
				b.ReportMetric(peak(b, p.PID()), "MiB/peak")
				p.End(syscall.SIGTERM)
			}
		})
	}
}

// peak returns the most memory that a process had, in MiB.
func peak(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(text)
	if m == nil {
		b.Fatalf("no peak in %s", text)
	}
	kilobytes, err := strconv.Atoi(string(m[1]))
	if err != nil {
		b.Fatal(err)
	}
	return float64(kilobytes) / 1024
}
