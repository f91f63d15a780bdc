package service

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloudbalancer"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/retry"
)

const (
	// everything is the key of the lookup.
	everything = "all"
	// leastInterval is the shortest time between two readings of the account.
	leastInterval = 2 * time.Second
	// subnetsInterval is how often subnets and quotas are read.
	subnetsInterval = time.Hour
	// mostDetails is how many objects one reading of details has. Each costs two requests,
	// and a reading has to end in time.
	mostDetails = 40
	// overdueTime is how long a due reading of the account waits for a moment without
	// changes in flight. Then no more begin before it.
	overdueTime = time.Minute
	// missingInterval is how often subnets are read that a Service waits for.
	missingInterval = time.Minute
)

// lookups paces readings that fail.
var lookups = retry.Backoff{First: time.Second, Last: time.Minute}

// look is what has to be read of the cloud.
type look struct {
	// needed is set if a Service is ours: without one, nothing is read.
	needed bool
	// instances are the provider IDs of those to look up.
	instances map[string]bool
	// waits are the lookups in a row after which instances did not run yet, and later is
	// when they are looked up again.
	waits int
	later time.Time
	// security are the IDs of security groups to read.
	security map[string]bool
	// absent are the IDs of security groups that do not exist, until when they are not
	// read again.
	absent map[string]time.Time
	// account and subnets are when these are read; known is set if they were.
	account, subnets           time.Time
	details                    time.Time // when details that an answer lacked are read again
	accountKnown, subnetsKnown bool
	at, began                  time.Time // when the last reading of the account ended and began
	last                       string    // the Service whose details were compared last
	failures                   int
	next                       time.Time // after a failure
	subnetsFailures            int       // in a row; these delay no other reading
	running                    *request  // nil if none is
}

func newLook() look {
	return look{instances: make(map[string]bool), security: make(map[string]bool), absent: make(map[string]time.Time)}
}

// request is one reading.
type request struct {
	instances, security []string
	account, subnets    bool
	services            []cloudbalancer.Ref // whose details are compared
	ids                 []string            // of details
	cluster             string
	began               time.Time
}

// found is what a reading has found. What is nil was not read.
type found struct {
	instances map[string]cloud.Instance
	all       *cloud.Balancing
	subnets   []cloud.Subnet
	quota     cloud.BalancerQuota
	details   cloud.Balancing
	ids       []string // whose details were asked for
	detailed  bool     // details is complete
	security  []cloud.SecurityGroup
	secured   bool
	ok        bool
	denied    error // why the cloud denied a part of it, or nil
}

// lookDue returns whether anything is to be read now.
func (c *Controller) lookDue(now time.Time) (keys []string, again time.Time) {
	l := &c.look
	if !l.needed || l.running != nil {
		return nil, time.Time{}
	}
	if now.Before(l.next) {
		return nil, l.next
	}
	r := &request{cluster: c.options.Rules.Cluster, began: now}
	r.security = slices.Sorted(maps.Keys(l.security))
	if r.subnets = !l.subnets.After(now); !r.subnets {
		again = l.subnets
	}
	if len(l.instances) > 0 && !now.Before(l.later) {
		r.instances = slices.Sorted(maps.Keys(l.instances))
	} else if len(l.instances) > 0 {
		again = controller.Earlier(again, l.later)
	}
	at := l.account
	if least := l.at.Add(leastInterval); at.Before(least) && !l.at.IsZero() {
		at = least
	}
	switch {
	case at.After(now):
		again = controller.Earlier(again, at)
	case len(c.changes) == 0: // else Done makes it due
		r.account = true
		r.instances = c.instanceIDs() // their security groups may have changed
		if c.rotates() {
			r.services = c.rotate()
		}
	}
	if now.Before(l.details) {
		again = controller.Earlier(again, l.details)
	} else {
		r.ids = c.unknown()
	}
	if len(r.instances)+len(r.security)+len(r.ids) == 0 && !r.account && !r.subnets {
		return nil, again
	}
	l.running = r
	c.running.Store(r)
	return []string{everything}, again
}

// unknown returns the IDs of at most mostDetails objects whose details have to be read.
func (c *Controller) unknown() (ids []string) {
	if !c.look.accountKnown {
		return nil
	}
	for key, s := range c.services {
		if !s.wanted() || s.flying > 0 || c.options.Only != "" && key != c.options.Only {
			continue // to remove what a Service has, its details are not needed
		}
		if s.stale {
			c.account.Forget(c.account.Holding(c.options.Rules.Cluster, s.Ref, nil))
			s.stale = false
		}
		if len(ids) < mostDetails {
			_, unread := c.account.Unread(s.Ref)
			ids = append(ids, unread...)
		}
	}
	return ids[:min(len(ids), mostDetails)]
}

// rotates reports whether a reading of the account has details of one Service, too.
func (c *Controller) rotates() bool { return c.look.accountKnown }

// rotate returns the next Service whose details are compared.
func (c *Controller) rotate() (one []cloudbalancer.Ref) {
	first := ""
	for _, key := range slices.Sorted(maps.Keys(c.services)) {
		if s := c.services[key]; s.isOurs() && s.flying == 0 {
			if first == "" {
				first = key
			}
			if key > c.look.last {
				c.look.last = key
				return []cloudbalancer.Ref{s.Ref}
			}
		}
	}
	if c.look.last = first; first != "" {
		one = append(one, c.services[first].Ref)
	}
	return one
}

// read reads what the running request asks for. It runs outside the loop.
func (c *Controller) read(ctx context.Context, _ []string) (map[string]found, error) {
	r, f, from := c.running.Load(), found{}, c.options.Cloud
	var errs, apart []error // apart are those of readings with a back-off of their own
	note := func(err error) bool {
		if err != nil {
			errs = append(errs, err)
		}
		return err == nil
	}
	var err error
	if len(r.instances) > 0 {
		f.instances, err = from.Instances(ctx, r.instances)
		note(err)
	}
	if r.subnets {
		var subnets []cloud.Subnet
		if subnets, err = from.Subnets(ctx); err == nil {
			f.subnets = slices.Concat([]cloud.Subnet{}, subnets)
		}
		apart = append(apart, err)
		f.quota, err = from.BalancerQuota(ctx)
		apart = append(apart, err)
	}
	f.ids = r.ids
	if r.account {
		var all cloud.Balancing
		if all, err = from.Balancing(ctx); note(err) {
			f.all = &all
			fresh := cloudbalancer.NewAccount()
			fresh.Set(all, nil, r.began)
			for _, s := range r.services {
				f.ids = append(f.ids, fresh.Holding(r.cluster, s, nil).Details()...)
			}
		}
	}
	if slices.Sort(f.ids); len(f.ids) > 0 {
		f.ids = slices.Compact(f.ids)
		f.details, err = from.Details(ctx, f.ids)
		f.detailed = note(err)
	}
	if len(r.security) > 0 {
		f.security, err = from.SecurityGroups(ctx, r.security)
		f.secured = note(err)
	}
	f.ok = len(errs) == 0
	errs = append(errs, apart...)
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil && cloud.KindOf(err) == cloud.Denied }); i >= 0 {
		f.denied = errs[i]
	}
	return map[string]found{everything: f}, errors.Join(errs...)
}

// readAgain makes a new reading of the account due.
func (c *Controller) readAgain(now time.Time) {
	if c.look.account.After(now) {
		c.look.account = now
	}
}

// isReading reports whether the account is being read. Changes wait until then, so that it
// shows them all or none.
func (c *Controller) isReading() bool { return c.look.running != nil && c.look.running.account }
