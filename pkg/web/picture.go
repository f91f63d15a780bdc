package web

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/page"
	"github.com/tulle-net/tulle/pkg/status"
)

// condition is the state of a peer on the page.
type condition int

// The conditions, each worse than those before it.
const (
	wellPeer condition = iota
	behindPeer
	failingPeer
	lostPeer
	conditions
)

// Class returns the condition's name in the style sheet.
func (c condition) Class() string { return [conditions]string{"good", "warn", "fail", "bad"}[c] }

// String returns the condition's name for people.
func (c condition) String() string {
	return [conditions]string{"in sync", "not in sync", "probes fail", "unroutable"}[c]
}

// conditionOf returns the condition of a peer.
func conditionOf(p status.Peer) condition {
	switch status.StateOf(p) {
	case status.UnroutablePeer:
		return lostPeer
	case status.ProbesFail:
		return failingPeer
	case status.InSync:
		return wellPeer
	}
	return behindPeer
}

// tallied counts peers by their condition.
func tallied(peers []status.Peer) (counts [conditions]int) {
	for _, p := range peers {
		counts[conditionOf(p)]++
	}
	return counts
}

// summarize returns the counts in words, without that of peers in sync.
func summarize(counts [conditions]int) string {
	var words []string
	for c := behindPeer; c < conditions; c++ {
		words = append(words, page.Grouped(counts[c])+" "+c.String())
	}
	return strings.Join(words, ", ")
}

// The picture is a square of side. Each peer has a place around this node, in the
// order of subnets. Up to named peers have their names; more are dots on rings; many
// share the cells of a grid. So the picture never has more than a few hundred parts.
const (
	side   = 360.0
	middle = side / 2
	named  = 12

	firstRing, ringStep, dotStep = 62.0, 18.0, 14.0

	across      = 21 // cells
	hole        = 5  // cells across that this node covers
	cells       = across*across - hole*hole
	cell, inner = side / across, side/across - 2
	mostBars    = 200
)

// picture is the drawing of the network.
type picture struct {
	Side    int
	Class   string // of this node
	Name    string
	Summary string
	Spokes  []spoke
	Dots    []dot
	// Well are the paths of all cells with peers in sync, by shade.
	Well [shades]string
	// Cells are the bars of cells with problems. If there are too many, Parts has one
	// path per condition instead.
	Cells []bar
	Parts [conditions]part
	Each  int // peers per cell; 0 without a grid
	// Mixed reports that some spokes are tunnels and some are not.
	Mixed bool
	// Shades are the shades in use, if peers in sync are shaded by their round trips.
	Shades []shade
}

type spoke struct{ Class, X, Y string }

type dot struct {
	Class, X, Y, Title string
	Label, LabelY      string
	// Took is the round trip, written beside the spoke.
	Took, TookX, TookY string
}

// part is the path of all bars in a condition.
type part struct {
	Condition condition
	Path      string
}

// bar is the filled part of a cell.
type bar struct {
	state               condition
	X, Y, Height, Title string
}

// Class returns the bar's class in the style sheet.
func (b bar) Class() string { return b.state.Class() }

func draw(peers []status.Peer, class, name string) picture {
	p := picture{Side: side, Class: class, Name: name}
	counts := tallied(peers)
	p.Summary = fmt.Sprintf("This node and %s: %s in sync, %s", page.Count(len(peers), "peer"), page.Grouped(counts[wellPeer]), summarize(counts))
	switch places := rings(len(peers)); {
	case len(peers) <= named:
		p.star(peers)
	case places != nil:
		p.rings(peers, places)
	default:
		p.grid(peers)
	}
	return p
}

func (p *picture) star(peers []status.Peer) {
	room := 15
	if len(peers) > 6 {
		room = 10
	}
	byTunnel := 0
	for i, peer := range peers {
		x, y := around(i, len(peers), 125)
		state := conditionOf(peer)
		class := state.Class()
		way := class
		if strings.HasPrefix(peer.By, "tunnel") {
			way += " tunnel"
			byTunnel++
		}
		p.Spokes = append(p.Spokes, spoke{way, coordinate(x), coordinate(y)})
		labelY := y + 23
		if y < middle-60 {
			labelY = y - 15
		}
		d := dot{Class: class, X: coordinate(x), Y: coordinate(y), Title: title(peer), Label: page.Line(nameOf(peer), room), LabelY: coordinate(labelY)}
		if ms := took(peer); ms > 0 {
			x, y := around(i, len(peers), 80)
			d.Took, d.TookX, d.TookY = millis(ms), coordinate(x), coordinate(y+3.5)
		}
		p.Dots = append(p.Dots, d)
	}
	p.Mixed = byTunnel > 0 && byTunnel < len(peers)
}

// point is a place on a ring.
type point struct{ x, y float64 }

// rings returns n places, spread evenly over as few rings as they need, or nil if
// there is no room.
func rings(n int) (all []point) {
	var room []int
	sum := 0
	for radius := firstRing; sum < n; radius += ringStep {
		if radius > middle-8 {
			return nil
		}
		room = append(room, int(2*math.Pi*radius/dotStep))
		sum += room[len(room)-1]
	}
	below := 0
	for i := range room {
		below += room[i]
		size := n*below/sum - len(all)
		for j := range size {
			x, y := around(j, size, firstRing+ringStep*float64(i))
			all = append(all, point{x, y})
		}
	}
	return all
}

func (p *picture) rings(peers []status.Peer, places []point) {
	shaded := anyTook(peers)
	var there [shades]bool
	for i, peer := range peers {
		x, y := coordinate(places[i].x), coordinate(places[i].y)
		state := conditionOf(peer)
		if state != wellPeer || len(peers) <= 60 {
			p.Spokes = append(p.Spokes, spoke{state.Class(), x, y})
		}
		class := state.Class()
		if state == wellPeer && shaded {
			s := shadeOf(took(peer))
			there[s], class = true, s.Class()
		}
		p.Dots = append(p.Dots, dot{Class: class, X: x, Y: y, Title: title(peer)})
	}
	p.shaded(there)
}

// anyTook reports whether any round trip is known.
func anyTook(peers []status.Peer) bool {
	return slices.ContainsFunc(peers, func(p status.Peer) bool { return took(p) > 0 })
}

// shaded records which shades are in use, the unknown one last.
func (p *picture) shaded(there [shades]bool) {
	for s := range shades {
		if s = (s + 1) % shades; there[s] {
			p.Shades = append(p.Shades, s)
		}
	}
}

func (p *picture) grid(peers []status.Peer) {
	p.Each = (len(peers) + cells - 1) / cells
	var well [shades]strings.Builder
	for i, at := 0, 0; at < len(peers); i++ {
		column, row := i%across, i/across
		if inHole(column) && inHole(row) {
			continue
		}
		share := peers[at:min(at+p.Each, len(peers))]
		at += len(share)
		p.cell(&well, share, float64(column)*cell+1, float64(row)*cell+1)
	}
	var there [shades]bool
	for s := range shades {
		p.Well[s] = well[s].String()
		there[s] = p.Well[s] != ""
	}
	if anyTook(peers) {
		p.shaded(there)
	}
	if len(p.Cells) <= mostBars {
		return
	}
	for _, b := range p.Cells {
		p.Parts[b.state].Condition = b.state
		p.Parts[b.state].Path += fmt.Sprintf("M%s %sh%sv%sh-%sz", b.X, b.Y, coordinate(inner), b.Height, coordinate(inner))
	}
	p.Cells = nil
}

func inHole(i int) bool { return i >= (across-hole)/2 && i < (across+hole)/2 }

// cell draws one cell. The share of peers with problems is the height of its filled
// part.
func (p *picture) cell(well *[shades]strings.Builder, peers []status.Peer, x, y float64) {
	counts := tallied(peers)
	if counts[wellPeer] > 0 {
		slowest := 0.0
		for _, peer := range peers {
			if conditionOf(peer) == wellPeer {
				slowest = max(slowest, took(peer))
			}
		}
		fmt.Fprintf(&well[shadeOf(slowest)], "M%s %sh%sv%sh-%sz", coordinate(x), coordinate(y), coordinate(inner), coordinate(inner), coordinate(inner))
	}
	if counts[wellPeer] == len(peers) {
		return
	}
	text := title(peers[0])
	if len(peers) > 1 {
		text = fmt.Sprintf("%s to %s: of %d peers %s", page.Join(peers[0].Subnets), page.Join(peers[len(peers)-1].Subnets), len(peers), summarize(counts))
	}
	bottom := y + inner
	for state := conditions - 1; state > wellPeer; state-- {
		if counts[state] == 0 {
			continue
		}
		const least = 5 // large enough to see
		height := max(least, inner*float64(counts[state])/float64(len(peers)))
		height = min(height, bottom-y)
		bottom -= height
		p.Cells = append(p.Cells, bar{state, coordinate(x), coordinate(bottom), coordinate(height), text})
	}
}

// around returns the i-th of n places on a circle around the middle, clockwise from
// the top.
func around(i, n int, radius float64) (x, y float64) {
	sin, cos := math.Sincos(2 * math.Pi * float64(i) / float64(n))
	return middle + radius*sin, middle - radius*cos
}

func coordinate(v float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
}

func title(p status.Peer) string {
	text := page.Join(p.Subnets) + ", " + conditionOf(p).String()
	if p.Name != "" {
		text = p.Name + ", " + text
	}
	if p.Problem != "" {
		text += ": " + p.Problem
	}
	if q := p.Probes; q != nil && q.Problem != "" {
		text += ": " + q.Problem
	}
	if ms := took(p); ms > 0 {
		text += ", answers in " + millis(ms)
	}
	return page.Line(text, page.Longest)
}

// nameOf returns the shortest name that distinguishes a peer.
func nameOf(p status.Peer) string {
	if p.Name != "" {
		return p.Name
	}
	return page.Join(p.Subnets)
}
