package awstest

import "time"

// Fault is a fault of some calls. A Fault without Answer, Delay, Hang, Reset, Lose and Half only
// counts them.
type Fault struct {
	// Action is the affected action; "" is all.
	Action string
	// Pass is how many calls succeed first. Times is how many it affects then; 0 is all.
	Pass, Times int
	// When, if set, selects calls. It must not call the server.
	When func(Call) bool

	// Answer is an error that replaces the answer.
	Answer *Error
	// Delay delays the call.
	Delay time.Duration
	// Hang never answers. The call is carried out only with Done.
	Hang, Done bool
	// Reset closes the connection without carrying the call out.
	Reset bool
	// Lose carries the call out, and closes the connection without an answer.
	Lose bool
	// Half carries the call out, and closes the connection in the middle of the answer.
	Half bool
}

type fault struct {
	Fault
	seen, struck int
	off          bool
}

// Inject adds a fault. The returned function ends the fault, and returns how many calls it has
// affected.
func (s *Server) Inject(f Fault) (end func() (struck int)) {
	added := &fault{Fault: f}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, added)
	return func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		added.off = true
		return added.struck
	}
}

// effect returns the first fault that affects a call, or the zero Fault.
func (s *Server) effect(c *Call) Fault {
	for _, f := range s.faults {
		if f.off || f.Action != "" && f.Action != c.Action || f.Times > 0 && f.struck >= f.Times || f.When != nil && !f.When(*c) {
			continue
		}
		if f.seen++; f.seen <= f.Pass {
			continue
		}
		f.struck++
		return f.Fault
	}
	return Fault{}
}

func (s *Server) latency(action string) time.Duration {
	if d, ok := s.settings.Latency[action]; ok {
		return d
	}
	return s.settings.Latency[""]
}
