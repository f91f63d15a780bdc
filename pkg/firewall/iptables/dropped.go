package iptables

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/tulle-net/tulle/subnet"
)

// Dropped returns how many packets the rules that confine have dropped since they were
// written. Other goroutines may call it while one uses the Tables.
func (t *Tables) Dropped(ctx context.Context) (packets uint64, err error) {
	for _, f := range subnet.Families {
		if t.variant.save[f] == "" {
			continue
		}
		err := t.options.run(ctx, "", func(r io.Reader) error {
			n, err := dropped(r, mangle.chain)
			packets += n
			return err
		}, t.variant.save[f], "-c", "-t", mangle.table)
		if err != nil {
			return 0, fmt.Errorf("read the counters of the %s table %s: %w", f, mangle.table, err)
		}
	}
	return packets, nil
}

// dropped returns how many packets the rules of a chain have dropped, from the output of
// iptables-save with counters.
func dropped(r io.Reader, chain string) (packets uint64, err error) {
	in := bufio.NewReaderSize(r, longestLine)
	for {
		line, _, err := readLine(in)
		if counters, rule, ok := strings.Cut(line, "] -A "+chain+" "); ok && strings.HasSuffix(rule, "-j DROP") {
			count, _, _ := strings.Cut(strings.TrimPrefix(counters, "["), ":")
			if n, err := strconv.ParseUint(count, 10, 64); err == nil {
				packets += n
			}
		}
		if err == io.EOF {
			return packets, nil
		}
		if err != nil {
			return 0, err
		}
	}
}
