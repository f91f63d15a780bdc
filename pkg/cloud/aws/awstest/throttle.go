package awstest

import "time"

// bucketKey identifies a token bucket: an action of an account in a region.
type bucketKey struct {
	at     place
	action string
}

type bucket struct {
	tokens float64
	at     time.Time
}

// throttle takes a token for a call, or refuses it.
func (s *Server) throttle(at place, c *Call, reads bool) *Error {
	key := bucketKey{at, c.Action}
	size, ok := s.settings.Buckets[c.Action]
	if shared := sharedBucket(c, reads); !ok && shared != "" {
		size, ok = s.settings.Buckets[shared]
		key.action = shared
	}
	if !ok {
		size = s.settings.Buckets[""]
	}
	if plain, ok := s.settings.Buckets[unfiltered]; ok && reads && c.Service == ec2Service && c.unfiltered() {
		key.action += " " + unfiltered
		size = plain
	}
	if size.Size <= 0 {
		return nil
	}
	now := s.now()
	b := s.buckets[key]
	if b == nil {
		b = &bucket{tokens: size.Size, at: now}
		s.buckets[key] = b
	}
	b.tokens = min(size.Size, b.tokens+now.Sub(b.at).Seconds()*size.Rate)
	b.at = now
	if b.tokens < 1 {
		switch c.Service {
		case ec2Service:
			return Throttled
		case elbService:
			return bad("ThrottlingException", "Rate exceeded")
		}
		return bad("Throttling", "Rate exceeded")
	}
	b.tokens--
	return nil
}

// These are the keys of the buckets that actions of Elastic Load Balancing share.
const (
	ReadsOfBalancers     = "reads of balancers"
	ChangesOfBalancers   = "changes of balancers"
	TargetsRegistrations = "registrations of targets"
)

// sharedBucket returns the key of the bucket that an action shares with others.
func sharedBucket(c *Call, reads bool) string {
	switch {
	case c.Service != elbService:
		return ""
	case reads:
		return ReadsOfBalancers
	case c.Action == "RegisterTargets" || c.Action == "DeregisterTargets":
		return TargetsRegistrations
	}
	return ChangesOfBalancers
}
