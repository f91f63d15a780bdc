package firewall

import "context"

// Await waits until everything that is wanted was tried, whether or not it could be
// written. It returns the error of ctx if that ends first.
func (k *Keeper) Await(ctx context.Context) error {
	for {
		k.mu.Lock()
		tried, again := k.tried(), k.turned
		k.mu.Unlock()
		if tried {
			return nil
		}
		select {
		case <-again:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tried reports whether everything that is wanted was tried. The caller holds mu.
func (k *Keeper) tried() bool {
	if k.wanted == 0 || k.parts == nil && k.finding.Err() == nil || k.want.NFTables != k.sought {
		return false
	}
	for _, p := range k.parts {
		if p.tried != k.wanted && p.Wants != nil {
			return false
		}
	}
	return true
}

// turn wakes those that wait for a change of tried. The caller holds mu.
func (k *Keeper) turn() {
	close(k.turned)
	k.turned = make(chan struct{})
}
