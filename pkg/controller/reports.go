package controller

import "time"

const (
	// reportInterval is the shortest time between two reports.
	reportInterval = time.Second
	// remindInterval is the time between two reports without a change, while something is
	// wrong.
	remindInterval = time.Minute
)

// Reports paces the reports of a controller's findings. In the zero value, a report is due at
// once.
type Reports struct{ last time.Time }

// Send calls send if a report is due. send reports whether something is wrong that needs
// reminders. Send returns when to call it again without a change, or zero for not at all.
func (r *Reports) Send(now time.Time, send func() (remind bool)) (again time.Time) {
	if due := r.last.Add(reportInterval); now.Before(due) {
		return due
	}
	r.last = now
	if send() {
		again = now.Add(remindInterval)
	}
	return again
}
