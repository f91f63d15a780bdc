package awstest

import "time"

// Fault is something that goes wrong. Without a further field that says what, it does
// nothing but count.
type Fault struct {
	// Action is the action that it strikes, "" for all.
	Action string
	// Pass is how many calls pass first, Times how many it strikes then, 0 for all.
	Pass, Times int
	// When, if set, chooses calls. It must not call the server.
	When func(Call) bool

	// Answer is an error in the place of the answer.
	Answer *Error
	// Delay comes before the call is carried out.
	Delay time.Duration
	// Hang never answers. The call is carried out only with Done.
	Hang, Done bool
	// Reset closes the connection in the place of carrying the call out.
	Reset bool
	// Lose carries the call out, and closes the connection in the place of an answer.
	Lose bool
	// Half carries the call out, and closes the connection in the middle of the answer.
	Half bool
}

type fault struct {
	Fault
	seen, struck int
	off          bool
}

// Inject adds a fault. The function that it returns ends the fault, and returns how many
// calls it struck.
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

// effect returns the first fault that strikes a call, the zero Fault without any.
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
