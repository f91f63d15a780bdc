package web

import (
	"cmp"
	"slices"

	"github.com/tulle-net/tulle/pkg/status"
)

type peerRow struct {
	Class, State           string
	Name, Subnets, Address string
	By                     string
	RoundTrip, Tried       string
	Whys                   []why
}

// why is a reason, and since when there is one.
type why struct{ Text, Since string }

// rows are the peers of the table, the worst first but some of each trouble, and
// what is left out. Of many without trouble it has the slowest.
func (r reading) rows(peers []status.Peer) (rows []peerRow, left string) {
	var by [conditions][]*status.Peer
	var counts, shown [conditions]int
	for i := range peers {
		p := &peers[i]
		c := conditionOf(*p)
		counts[c]++
		// What was tried is not much: the daemon does not remember more.
		if len(by[c]) < mostRows || c == wellPeer && p.Probes != nil {
			by[c] = append(by[c], p)
		}
	}
	if len(peers) > mostRows {
		slices.SortStableFunc(by[wellPeer], func(a, b *status.Peer) int { return cmp.Compare(took(*b), took(*a)) })
	}
	for c := conditions - 1; c >= 0; c-- {
		room := mostRows
		if c == wellPeer && len(peers) > mostRows {
			room = mostWell
		}
		for lesser := behindPeer; lesser < c; lesser++ {
			room -= min(counts[lesser], fewRows)
		}
		shown[c] = max(0, min(room-len(rows), len(by[c])))
		for _, p := range by[c][:shown[c]] {
			rows = append(rows, r.row(*p, c))
		}
	}
	for c := conditions - 1; c >= 0; c-- {
		if n := counts[c] - shown[c]; n > 0 {
			left += pick(left == "", "", ", ") + grouped(n) + " " + c.String()
		}
	}
	return rows, left
}

func (r reading) row(p status.Peer, c condition) peerRow {
	row := peerRow{
		Class: c.Class(), State: c.String(), Name: line(p.Name, mostName), Subnets: join(p.Subnets), Address: join(p.Addresses),
		By: p.By,
	}
	if p.By == "" && c != wellPeer {
		row.By = "no path"
	}
	if p.Problem != "" {
		row.Whys = append(row.Whys, why{line(p.Problem, longest), r.since(p.Since)})
	}
	if q := p.Probes; q != nil {
		row.Tried = "probed " + ago(r.at, q.At)
		if q.Millis > 0 {
			row.RoundTrip = millis(q.Millis)
		}
		if q.Problem != "" {
			row.Whys = append(row.Whys, why{line(q.Problem, longest), r.since(q.Since)})
		}
	}
	return row
}
