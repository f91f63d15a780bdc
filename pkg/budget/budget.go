package budget

import (
	"sync"
	"time"
)

// Class is what depends on a key. The pool keeps a reserve for those that carry
// more: when it runs low, they are still healed at once.
type Class int

// The classes, those that carry most first.
const (
	Link   Class = iota // a device, and all that is on it
	Addr                // an address, with which its routes go
	Shared              // what many peers need: a setting, the firewall's rules
	Single              // what one peer needs, and files
	Classes
)

const (
	// share is the part of a core that healing may take while keys are healed at
	// once, and burst what may be spent ahead of it.
	share = 0.03
	burst = 500 * time.Millisecond
	// debt is how far one expensive heal may overdraw the pool.
	debt = 100 * time.Millisecond
	// reserve is what each class leaves to the one before it.
	reserve = burst / 10
	// Turn is how often a key is healed at least, whatever the pool holds.
	Turn = time.Second
	// limitBurst is what an account may spend ahead of its limit, and LongestWait
	// how long it waits at most, however much it spent.
	limitBurst  = 250 * time.Millisecond
	LongestWait = 10 * time.Second
)

// The limits of the accounts, each as a part of a core.
const (
	KernelLimit   = 0.20
	FirewallLimit = 0.05
	FilesLimit    = 0.20
)

// Pool is what healing may cost, over all accounts.
type Pool struct {
	mu     sync.Mutex
	bucket bucket
}

// New returns a full pool.
func New() *Pool {
	return &Pool{bucket: bucket{share: share, most: burst, debt: debt}}
}

// Account is the part of the daemon that heals one kind of thing. It spends from
// the pool, and has a limit of its own, which also covers its turns and what it
// looks at in vain. It is safe for concurrent use.
type Account struct {
	pool  *Pool
	meter Meter

	mu    sync.Mutex
	limit bucket
}

// Account opens an account, whose costs are measured by meter.
func (p *Pool) Account(limit float64, meter Meter) *Account {
	return &Account{pool: p, meter: meter, limit: bucket{
		share: limit, most: limitBurst, debt: time.Duration(limit * float64(LongestWait)),
	}}
}

// Kernel opens the account of the kernel's objects.
func (p *Pool) Kernel() *Account { return p.Account(KernelLimit, Processor) }

// Firewall opens the account of the firewall's rules, which commands may write.
func (p *Pool) Firewall() *Account { return p.Account(FirewallLimit, Commands) }

// Files opens the account of files. What they cost is the disk's time, so that a
// pool of their own serves them best.
func (p *Pool) Files() *Account { return p.Account(FilesLimit, Elapsed) }

// When returns the earliest time, from now on, at which a key of class c may be
// healed whose last turn was at last.
func (a *Account) When(now time.Time, c Class, last time.Time) time.Time {
	a.pool.mu.Lock()
	at := a.pool.bucket.when(now, time.Duration(c)*reserve)
	a.pool.mu.Unlock()
	if turn := last.Add(Turn); turn.Before(at) {
		at = turn
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if limit := a.limit.when(now, 0); limit.After(at) {
		at = limit
	}
	if at.Before(now) {
		return now
	}
	return at
}

// Heal books the cost of a heal.
func (a *Account) Heal(now time.Time, cost time.Duration) {
	a.pool.mu.Lock()
	a.pool.bucket.spend(now, cost)
	a.pool.mu.Unlock()
	a.Look(now, cost)
}

// Look books the cost of a look that found nothing to heal.
func (a *Account) Look(now time.Time, cost time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.limit.spend(now, cost)
}

// Measure starts the account's meter. The returned function stops it and returns
// the cost since; both must be called by the same goroutine.
func (a *Account) Measure() (stop func() time.Duration) { return a.meter() }
