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

// quiet is how long nobody changes annotations that are left alone.
const quiet = time.Minute

// Hold implements subnet.Store. A Node's annotations do not expire: there is
// nothing to renew, and nothing is written unless somebody else wrote.
func (s *Store) Hold(ctx context.Context, own subnet.Lease) error {
	s.begin()
	attrs := own.Attrs
	s.mu.Lock()
	if attrs == s.published {
		attrs = s.claimed // what people overwrote they may take back
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
					// Who changes it again and again is not to have us do the same.
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

// lost is why the subnets of own are this node's no more, if they are not. A Node
// that was made anew and was not given any yet may be given the same.
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
