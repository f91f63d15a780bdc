package kube

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/subnet"
)

// quiet is how long our annotations must stay unchanged before the back-off starts
// over.
const quiet = time.Minute

// Hold implements subnet.Store. A Node's annotations do not expire, so there is
// nothing to renew. Hold writes only after another program changed them.
func (s *Store) Hold(ctx context.Context, own subnet.Lease) error {
	s.begin()
	attrs := own.Attrs
	s.mu.Lock()
	if attrs == s.published {
		attrs = s.claimed // without overwrites, which people may have removed since
	}
	s.mu.Unlock()
	if _, err := publish(attrs); err != nil {
		return err
	}
	rewrites, last := 0, time.Time{}
	for {
		e, known, changed := s.book.ownNode()
		if known && e == nil {
			s.trouble.Failed(holding, reasonf("Node %s is gone; restart the kubelet, which registers it again", s.book.own()))
		}
		if e != nil {
			if err := s.lost(e, own); err != nil {
				s.trouble.Forget(holding)
				return err
			}
			if e.subnets != (subnet.Pair[netip.Prefix]{}) {
				before := e.revision
				l, err := s.write(ctx, e, own.Subnets, attrs)
				switch {
				case ctx.Err() != nil:
					return ctx.Err()
				case err != nil && !errors.Is(err, errMoved):
					return err
				case err != nil || l.Revision != before:
					// Back off from a program that changes them again and again.
					if time.Since(last) > quiet {
						rewrites = 0
					}
					rewrites++
					last = time.Now()
					if err == nil {
						klog.InfoS("Restored our annotations after they were lost or changed", "node", e.name)
					}
					if err := kube.Pause(ctx, rewrites, nil); err != nil {
						return err
					}
					continue
				}
				s.trouble.Over(holding)
			}
		}
		if err := wait(ctx, changed); err != nil {
			return err
		}
	}
}

const holding = "holding the lease"

// lost returns an error if own's subnets are no longer this node's. A Node that was
// re-created and has no podCIDR yet may get the same one.
func (s *Store) lost(e *entry, own subnet.Lease) error {
	if e.cidrErr != nil {
		return fmt.Errorf("%w: Node %s: %w", subnet.ErrTaken, e.name, e.cidrErr)
	}
	if e.subnets == (subnet.Pair[netip.Prefix]{}) {
		s.trouble.Failed(holding, reasonf("Node %s has no podCIDR any more; keeping %s", e.name, own.Key()))
		return nil
	}
	for f, p := range own.Subnets {
		if p.IsValid() && e.subnets[f] != p {
			return fmt.Errorf("%w: Node %s was given the podCIDR %s instead of %s", subnet.ErrTaken, e.name, subnet.FormatKey(e.subnets), own.Key())
		}
	}
	if r, _ := s.book.rival(e); r != nil {
		return fmt.Errorf("%w: Node %s was given %s first", subnet.ErrTaken, r.name, r.key)
	}
	return nil
}
