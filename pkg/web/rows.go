package web

import (
	"cmp"
	"slices"

	"github.com/tulle-net/tulle/pkg/page"
	"github.com/tulle-net/tulle/pkg/status"
)

type peerRow struct {
	Class, State           string
	Name, Subnets, Address string
	By                     string
	RoundTrip, Tried       string
	Whys                   []why
}

// why is a reason, and since when it holds.
type why struct{ Text, Since string }

// rows returns the rows of the table, and what it leaves out in words. The worst come
// first, with some of each lesser trouble. If there are many peers in sync, it shows
// the slowest.
func (r reading) rows(peers []status.Peer) (rows []peerRow, left string) {
	var by [conditions][]*status.Peer
	var counts, shown [conditions]int
	for i := range peers {
		p := &peers[i]
		c := conditionOf(*p)
		counts[c]++
		// Peers with probes are few: the daemon does not keep more.
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
			left += pick(left == "", "", ", ") + page.Grouped(n) + " " + c.String()
		}
	}
	return rows, left
}

func (r reading) row(p status.Peer, c condition) peerRow {
	row := peerRow{
		Class: c.Class(), State: c.String(), Name: page.Line(p.Name, mostName), Subnets: page.Join(p.Subnets), Address: page.Join(p.Addresses),
		By: p.By,
	}
	if p.By == "" && c != wellPeer {
		row.By = "no path"
	}
	if p.Problem != "" {
		row.Whys = append(row.Whys, why{page.Line(p.Problem, page.Longest), r.since(p.Since)})
	}
	if q := p.Probes; q != nil {
		row.Tried = "probed " + page.Ago(r.at, q.At)
		if q.Millis > 0 {
			row.RoundTrip = millis(q.Millis)
		}
		if q.Problem != "" {
			row.Whys = append(row.Whys, why{page.Line(q.Problem, page.Longest), r.since(q.Since)})
		}
	}
	return row
}
