package awstest

import "time"

// bucketKey is what has a token bucket of its own: an action of an account in a region.
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
	if !ok {
		size = s.settings.Buckets[""]
	}
	if plain, ok := s.settings.Buckets[unfiltered]; ok && reads && c.unfiltered() {
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
		if c.Service == ec2Service {
			return Throttled
		}
		return bad("Throttling", "Rate exceeded")
	}
	b.tokens--
	return nil
}
