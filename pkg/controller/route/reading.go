package route

import (
	"context"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/controller"
)

// The keys of the lookups that read everything at once.
const everything = "all"

// tablesRead is what was read of the tables.
type tablesRead struct {
	all   []cloud.Table
	began time.Time
}

// tablesDue returns when the tables are read.
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
func (r *reading) begin(now, due time.Time) (keys []string, again time.Time) {
	switch {
	case r.reads:
		return nil, time.Time{}
	case due.After(now):
		return nil, due
	}
	r.reads = true
	return []string{everything}, time.Time{}
}

// end records the outcome of a read. The next one is due after period; zero is never.
func (r *reading) end(now time.Time, ok bool, period time.Duration) {
	r.reads = false
	if !ok {
		r.failures++
		r.due = now.Add(lookups.After(r.failures))
		return
	}
	r.failures, r.known, r.at, r.due = 0, true, now, now.Add(period)
}

func (c *Controller) readTables(ctx context.Context, _ []string) (map[string]tablesRead, error) {
	began := time.Now()
	all, err := c.options.Cloud.Tables(ctx)
	if err != nil {
		return nil, err // nothing follows from a part of the tables
	}
	return map[string]tablesRead{everything: {all, began}}, nil
}

func (c *Controller) takeTables(_ []string, found map[string]tablesRead) {
	now := time.Now()
	read, ok := found[everything]
	first := !c.tables.known
	c.tables.end(now, ok, c.options.Period)
	if !ok {
		return
	}
	switch {
	case first && c.options.Period > lateTime:
		c.tables.due = now.Add(lateTime)
	case c.options.Period < refreshInterval/2 && !controller.NextRefresh(c.led, now, refreshInterval).After(c.tables.due):
		c.tables.due = c.tables.due.Add(c.options.Period) // the instances are read in its place
	}
	c.book.SetTables(read.all, read.began, now)
}

// ledgerDue returns when the ledger is read: in the beginning, with every comparison, and
// after a write that failed. While it is written, it is not read.
func (c *Controller) ledgerDue(now time.Time) (keys []string, again time.Time) {
	switch {
	case c.writing == nil:
	case c.ledger.failures == 0:
		return nil, time.Time{}
	case c.ledger.due.After(now):
		return nil, c.ledger.due
	default: // what failed is still to be read
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
	c.ledger.end(now, ok, c.options.Period)
	if !ok {
		return
	}
	c.version, c.problems = contents.Version, contents.Problems
	c.book.SetLedger(contents.Entries, now)
}
