package controller

import "time"

const (
	// fewDenials is how many objects a server denies at least if the cause is not theirs.
	fewDenials = 3
	// mostDenials limits the objects that denials keeps.
	mostDenials = 1 << 14
)

// denials are the writes of a controller that the server denied: it gave a final answer,
// like 403, that may be meant for one object or for all. A policy of the cluster denies
// some objects. A missing right or an expired token denies every object.
//
// An object that was denied alone is left to the controller's own back-off. Once several
// objects in a row were denied, the controller's writes pause.
type denials struct {
	objects map[Ref]struct{} // that were denied since the term began
	row     int              // those that were denied first since a write was made
	tries   int              // that were denied since a write was made
	made    bool             // a write was made in this term
	pauses  int              // in a row
	until   time.Time        // of the pause
}

// add records that the server denied a write.
func (d *denials) add(object Ref, now time.Time) {
	d.tries++
	_, again := d.objects[object]
	if !again {
		if d.objects == nil || len(d.objects) >= mostDenials {
			d.objects = make(map[Ref]struct{})
		}
		d.objects[object] = struct{}{}
		d.row++
	}
	// While writes of other objects succeed, an object that is denied again says nothing
	// about the server.
	if d.row < fewDenials || again && d.made && d.tries < mostWrites {
		return
	}
	d.pauses++
	if until := now.Add(backoff.After(d.pauses)); until.After(d.until) {
		d.until = until
	}
}

// clear records that a write was made, so the server does not deny all.
func (d *denials) clear(object Ref) {
	delete(d.objects, object)
	d.made, d.tries, d.row, d.pauses, d.until = true, 0, 0, 0, time.Time{}
}
