package budget

import (
	"sync"
	"time"
)

// Class ranks keys by how much depends on them. The pool keeps a reserve for the higher
// classes: when it runs low, their keys are still healed at once.
type Class int

// The classes, the highest first.
const (
	Link   Class = iota // a device, and everything on it
	Addr                // an address, whose routes the kernel removes with it
	Shared              // what many peers need: a setting, the firewall's rules
	Single              // what one peer needs, and files
	Classes
)

const (
	// share is the part of a core that healing at once may take, and burst how much it
	// may spend ahead.
	share = 0.03
	burst = 500 * time.Millisecond
	// debt is how far one expensive heal may overdraw the pool.
	debt = 100 * time.Millisecond
	// reserve is what each class leaves to the next higher one.
	reserve = burst / 10
	// Turn is the longest time between two heals of a key, whatever the pool holds.
	Turn = time.Second
	// limitBurst is how much an account may spend ahead of its limit, and LongestWait its
	// longest wait, however much it spent.
	limitBurst  = 250 * time.Millisecond
	LongestWait = 10 * time.Second
)

// These are the limits of the accounts, each as a part of a core.
const (
	KernelLimit   = 0.20
	FirewallLimit = 0.05
	FilesLimit    = 0.20
)

// Pool is the time that healing may take, over all accounts.
type Pool struct {
	mu     sync.Mutex
	bucket bucket
}

// New returns a full pool.
func New() *Pool {
	return &Pool{bucket: bucket{share: share, most: burst, debt: debt}}
}

// Account books the costs of the part of the daemon that heals one kind of object. It
// spends from the pool, and has a limit of its own. The limit also covers its turns, and
// the checks that find nothing to heal. It is safe for concurrent use.
type Account struct {
	pool  *Pool
	meter Meter

	mu    sync.Mutex
	limit bucket
}

// Account opens an account. meter measures its costs.
func (p *Pool) Account(limit float64, meter Meter) *Account {
	return &Account{pool: p, meter: meter, limit: bucket{
		share: limit, most: limitBurst, debt: time.Duration(limit * float64(LongestWait)),
	}}
}

// Kernel opens the account of the kernel's objects.
func (p *Pool) Kernel() *Account { return p.Account(KernelLimit, Processor) }

// Firewall opens the account of the firewall's rules, which commands may write.
func (p *Pool) Firewall() *Account { return p.Account(FirewallLimit, Commands) }

// Files opens the account of files. Its meter counts elapsed time, because writing a file
// keeps the disk busy. Open it on a Pool of its own.
func (p *Pool) Files() *Account { return p.Account(FilesLimit, Elapsed) }

// When returns the earliest time, from now on, at which a key of class c may be healed. Its
// last turn was at last.
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
	a.Check(now, cost)
}

// Check books the cost of a check that found nothing to heal.
func (a *Account) Check(now time.Time, cost time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.limit.spend(now, cost)
}

// Measure starts the account's meter. The returned function stops it and returns
// the cost since; both must be called by the same goroutine.
func (a *Account) Measure() (stop func() time.Duration) { return a.meter() }
