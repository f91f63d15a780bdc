package cloud

import "sync"

// mostChanges is the maximum number of changes that ChangeEach makes concurrently. The limiter
// of the account paces their requests.
const mostChanges = 16

// ChangeEach makes independent changes of routes, and returns the error of each. It is for
// clouds where each change is a request of its own.
func ChangeEach(changes []RouteChange, apply func(RouteChange) error) []error {
	errs := make([]error, len(changes))
	var running sync.WaitGroup
	free := make(chan struct{}, mostChanges)
	for i, change := range changes {
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			errs[i] = apply(change)
		})
	}
	running.Wait()
	return errs
}
