package clustertest

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// Drops returns the kernel's counters that show where a packet was lost: those of each
// namespace of the cluster, and those of the machine. Zeros are left out.
func (c *Cluster) Drops() string {
	var b strings.Builder
	for _, h := range c.Hosts {
		spaces := []*kerneltest.NS{h.NS}
		for _, p := range h.Pods {
			spaces = append(spaces, p.NS)
		}
		for _, ns := range spaces {
			if err := Inside(ns.Path, func() error {
				fmt.Fprintf(&b, "%s: %s\n", ns.Name, strings.Join(spaceDrops(), " "))
				return nil
			}); err != nil {
				fmt.Fprintf(&b, "%s: %v\n", ns.Name, err)
			}
		}
	}
	for _, table := range []string{"arp_cache", "ndisc_cache"} {
		fmt.Fprintf(&b, "machine, %s: %s\n", table, strings.Join(columns("/proc/1/net/stat/"+table), " "))
	}
	softnet, err := os.ReadFile("/proc/net/softnet_stat")
	fmt.Fprintf(&b, "machine, softnet_stat (the second column are drops): %v\n%s", err, softnet)
	return b.String()
}

// spaceDrops returns the counters of the namespace that the thread is in.
func spaceDrops() []string {
	isDrop := func(name string) bool {
		return slices.ContainsFunc([]string{"Drop", "Discard", "Err", "Fail", "NoRoute", "Overflow", "Prune", "Unreach", "Filter"},
			func(word string) bool { return strings.Contains(name, word) })
	}
	var out []string
	for _, file := range []string{"snmp", "netstat"} {
		text, _ := os.ReadFile("/proc/thread-self/net/" + file)
		lines := strings.Split(string(text), "\n")
		for i := 0; i+1 < len(lines); i += 2 {
			names, values := strings.Fields(lines[i]), strings.Fields(lines[i+1])
			for j := 1; j < min(len(names), len(values)); j++ {
				if values[j] != "0" && isDrop(names[j]) {
					out = append(out, names[0]+names[j]+"="+values[j])
				}
			}
		}
	}
	text, _ := os.ReadFile("/proc/thread-self/net/snmp6")
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 2 && f[1] != "0" && isDrop(f[0]) {
			out = append(out, f[0]+"="+f[1])
		}
	}
	text, _ = os.ReadFile("/proc/thread-self/net/dev")
	for line := range strings.Lines(string(text)) {
		name, rest, found := strings.Cut(line, ":")
		f := strings.Fields(rest)
		if found && len(f) >= 12 && (f[2] != "0" || f[3] != "0" || f[10] != "0" || f[11] != "0") {
			out = append(out, fmt.Sprintf("%s:rx-errors=%s,rx-drops=%s,tx-errors=%s,tx-drops=%s", strings.TrimSpace(name), f[2], f[3], f[10], f[11]))
		}
	}
	return out
}

// columns returns the sums of the columns of a table of hexadecimal counters, which has
// a row for each processor.
func columns(path string) []string {
	text, err := os.ReadFile(path)
	if err != nil {
		return []string{err.Error()}
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	names := strings.Fields(lines[0])
	sums := make([]uint64, len(names))
	for _, line := range lines[1:] {
		for i, f := range strings.Fields(line) {
			var n uint64
			if _, err := fmt.Sscanf(f, "%x", &n); err == nil && i < len(sums) {
				sums[i] += n
			}
		}
	}
	var out []string
	for i, name := range names {
		if sums[i] != 0 {
			out = append(out, fmt.Sprintf("%s=%d", name, sums[i]))
		}
	}
	return out
}
