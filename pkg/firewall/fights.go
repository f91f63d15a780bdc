package firewall

import (
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/budget"
)

// undone records that rules were restored that another program had changed. It logs
// that until it is known to be a fight. The caller holds mu.
func (k *Keeper) undone(p *part, heard, now time.Time) {
	p.healed++
	switch begins := k.fights.Heal(p.Name, heard, now); {
	case begins:
		f, _ := k.fights.Of(p.Name, now)
		klog.InfoS("Another program keeps changing the firewall's rules; restoring them each time",
			"rules", p.Name, "rate", budget.Rate(f.Rate), "hint", "«nft monitor» shows what and by whom")
	case !k.fights.Fought(p.Name):
		klog.InfoS("Restored the firewall's rules that others had changed", "rules", p.Name)
	}
}

// wrongSince returns since when rules were probably wrong that a look found changed.
// That look began at began, and the previous one at last found them right. Between
// two polls a change may come at any time, on average in the middle.
func (p *part) wrongSince(last, began time.Time) time.Time {
	if p.Watch != nil || last.IsZero() {
		return began
	}
	return last.Add(began.Sub(last) / 2)
}

// interval returns how long p waits for its next poll. While another program keeps
// changing what only a poll finds, the poll is its turn. The caller holds mu.
func (k *Keeper) interval(p *part) time.Duration {
	if p.Watch == nil && k.fights.Fought(p.Name) {
		return min(p.Every, budget.Turn)
	}
	return p.Every
}

// sweep logs the fights that are over.
func (k *Keeper) sweep() {
	k.mu.Lock()
	over := k.fights.Sweep(time.Now())
	k.mu.Unlock()
	for rules, f := range over {
		klog.InfoS("Other programs no longer change the firewall's rules", "rules", rules, "restored", f.Healed, "since", f.Since.UTC().Format(time.RFC3339))
		k.changed()
	}
}
