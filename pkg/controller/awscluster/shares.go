package awscluster

// shares divides what may be in flight at once among regions. A region that does not answer
// holds what it has until the timeout, so each gets at most half of what the others leave.
type shares struct {
	all, most int // over all regions, and of one
	taken     map[string]int
}

func newShares(all, most int) shares { return shares{all, most, make(map[string]int)} }

// left returns how much more a region may have in flight.
func (s shares) left(region string) int {
	free := s.all
	for other, n := range s.taken {
		if other != region {
			free -= n
		}
	}
	return max(0, min(s.most, free, max(1, free/2))-s.taken[region])
}

func (s shares) take(region string) { s.taken[region]++ }

func (s shares) give(region string) {
	if s.taken[region]--; s.taken[region] <= 0 {
		delete(s.taken, region)
	}
}
