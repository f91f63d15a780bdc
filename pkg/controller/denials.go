package controller

import "time"

const (
	// fewDenials is the number of denied objects in a row from which the cause is not theirs.
	fewDenials = 3
	// mostDenials limits the objects that denials keeps.
	mostDenials = 1 << 14
)

// denials records the writes of a controller that the server denied: it gave a final answer,
// like 403. A policy of the cluster denies some objects. A missing right or an expired token
// denies every object.
//
// For a single denied object, the controller backs off itself. Once the server has denied
// several objects in a row, all writes of the controller pause.
type denials struct {
	objects map[Ref]struct{} // denied since the term began
	row     int              // objects denied for the first time since a write succeeded
	tries   int              // denied tries since a write succeeded
	made    bool             // a write has succeeded in this term
	pauses  int              // pauses in a row
	until   time.Time        // the end of the pause
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
	// While writes of other objects succeed, another denial of a known object shows nothing
	// about the server.
	if d.row < fewDenials || again && d.made && d.tries < mostWrites {
		return
	}
	d.pauses++
	if until := now.Add(backoff.After(d.pauses)); until.After(d.until) {
		d.until = until
	}
}

// clear records a successful write: the server does not deny everything.
func (d *denials) clear(object Ref) {
	delete(d.objects, object)
	d.made, d.tries, d.row, d.pauses, d.until = true, 0, 0, 0, time.Time{}
}
