package e2e

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/test/tabletest"
)

// sample is the durations of one thing that was measured repeatedly.
type sample []time.Duration

func (s sample) at(share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[int(share*float64(len(sorted)-1)+0.5)]
}

func (s sample) cell() string {
	if len(s) == 0 {
		return "–"
	}
	return tabletest.Milliseconds(s.at(0)) + " / " + tabletest.Milliseconds(s.at(0.5))
}

// memoryCells returns the peaks, the resident memory at the end, and which part of that
// was the program's file.
func (s start) memoryCells() (peak, resident, file string) {
	var peaks, residents, files []int64
	for _, m := range s.memory {
		peaks, residents, files = append(peaks, m.peak), append(residents, m.resident), append(files, m.file)
	}
	cell := func(of []int64) string {
		slices.Sort(of)
		return fmt.Sprintf("%.1f / %.1f", float64(of[0])/(1<<20), float64(of[len(of)/2])/(1<<20))
	}
	return cell(peaks), cell(residents), cell(files)
}

func (s start) callsCell() string {
	all := 0
	var each []string
	for _, name := range slices.Sorted(maps.Keys(s.calls)) {
		all += s.calls[name]
		each = append(each, fmt.Sprintf("%d %s", s.calls[name], name))
	}
	return fmt.Sprintf("%d: %s", all, strings.Join(each, ", "))
}

// report prints all measurements.
func (s scale) report(all []*measured) {
	fmt.Fprintf(s.to, "\n%s, %d processors, %d rounds. Times are in ms, minimum / median, unless the table says otherwise.\n", runtime.Version(), runtime.NumCPU(), s.rounds)
	head := []string{"leases", "daemon", "all in the kernel", "it says so", "processor time", "peak memory, MiB", "resident then", "of that its file", "messages to etcd"}
	cold := [][]string{slices.Concat([]string{"First start"}, head)}
	again := [][]string{slices.Concat([]string{"Another start"}, head)}
	more := [][]string{{"One more", "leases", "daemon", "minimum", "median", "95 of 100", "maximum", "of that etcd's write, median"}}
	for _, m := range all {
		row := func(s start) []string {
			peak, resident, file := s.memoryCells()
			return []string{m.backend, fmt.Sprint(m.peers), m.name, s.there.cell(), s.said.cell(), s.cpu.cell(), peak, resident, file, s.callsCell()}
		}
		cold = append(cold, row(m.cold))
		if len(m.again.said) > 0 {
			again = append(again, row(m.again))
		}
		if len(m.more) > 0 {
			more = append(more, []string{
				m.backend, fmt.Sprint(m.peers), m.name, tabletest.Milliseconds(m.more.at(0)), tabletest.Milliseconds(m.more.at(0.5)), tabletest.Milliseconds(m.more.at(0.95)), tabletest.Milliseconds(m.more.at(1)),
				tabletest.Milliseconds(m.write.at(0.5)),
			})
		}
	}
	for _, rows := range [][][]string{cold, again, more} {
		fmt.Fprintf(s.to, "\n### %s\n\n%s", rows[0][0], tabletest.Markdown(rows...))
	}
}
