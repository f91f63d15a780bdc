package route

import (
	"context"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/retry"
)

// everything is the only key of a lookup that reads all objects at once.
const everything = "all"

// tablesRead is a read of all tables.
type tablesRead struct {
	all   []cloud.Table
	began time.Time
}

// tablesDue returns when to read the tables.
func (c *Controller) tablesDue(now time.Time) (keys []string, again time.Time) {
	due := c.tables.due
	if by := c.book.ReadBy(); c.tables.known && !by.IsZero() && c.tables.failures == 0 && by.Before(due) {
		if due = by; due.Before(c.tables.at.Add(leastInterval)) {
			due = c.tables.at.Add(leastInterval)
		}
	}
	return c.tables.begin(now, due)
}

// begin begins a read if it is due.
func (r *poll) begin(now, due time.Time) (keys []string, again time.Time) {
	switch {
	case r.inFlight:
		return nil, time.Time{}
	case due.After(now):
		return nil, due
	}
	r.inFlight = true
	return []string{everything}, time.Time{}
}

// end records the outcome of a read. The next one is due after period, or after a pause of retries
// if this one has failed.
func (r *poll) end(now time.Time, ok bool, period time.Duration, retries retry.Backoff) {
	r.inFlight = false
	if !ok {
		r.failures++
		r.due = now.Add(retries.After(r.failures))
		return
	}
	r.failures, r.known, r.at, r.due = 0, true, now, now.Add(period)
}

func (c *Controller) readTables(ctx context.Context, _ []string) (map[string]tablesRead, error) {
	began := time.Now()
	all, err := c.options.Cloud.Tables(ctx)
	if err != nil {
		return nil, err // never apply an incomplete list of tables
	}
	return map[string]tablesRead{everything: {all, began}}, nil
}

func (c *Controller) takeTables(_ []string, found map[string]tablesRead) {
	now := time.Now()
	read, ok := found[everything]
	first := !c.tables.known
	c.tables.end(now, ok, c.options.Period, lookups)
	if !ok {
		return
	}
	switch {
	case first && c.options.Period > lateTime:
		c.tables.due = now.Add(lateTime)
	case c.options.Period < refreshInterval/2 && !controller.NextRefresh(c.led, now, refreshInterval).After(c.tables.due):
		c.tables.due = c.tables.due.Add(c.options.Period) // that turn reads the instances instead
	}
	c.book.SetTables(read.all, read.began, now)
}

// ledgerDue returns when to read the ledger: at the beginning of a term, with every comparison,
// and after a failed write. It is not read while a write is in flight.
func (c *Controller) ledgerDue(now time.Time) (keys []string, again time.Time) {
	switch {
	case c.writing == nil:
	case c.ledger.failures == 0:
		return nil, time.Time{}
	case c.ledger.due.After(now):
		return nil, c.ledger.due
	default: // a failed read is still to be repeated
		return nil, now.Add(lookups.First)
	}
	return c.ledger.begin(now, c.ledger.due)
}

func (c *Controller) readLedger(ctx context.Context, _ []string) (map[string]Contents, error) {
	contents, err := c.options.Ledger.Read(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]Contents{everything: contents}, nil
}

func (c *Controller) takeLedger(_ []string, found map[string]Contents) {
	now := time.Now()
	contents, ok := found[everything]
	c.ledger.end(now, ok, c.options.Period, stored)
	if !ok {
		return
	}
	c.version, c.problems = contents.Version, contents.Problems
	c.book.SetLedger(contents.Entries, now)
}
