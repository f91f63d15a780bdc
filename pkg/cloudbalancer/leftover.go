package cloudbalancer

import (
	"cmp"
	"slices"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// Leftover is an object that is the cluster's, of a Service that does not exist.
type Leftover struct{ ID, Name, Service string }

// Leftovers returns the balancers of this cluster whose Services do not exist.
func (a *Account) Leftovers(cluster string, exists func(key string, balancer string) bool) (all []Leftover) {
	for _, b := range a.balancers {
		if key := b.Tags[ServiceTag]; b.Tags[clusterTag+cluster] == owned && key != "" && !exists(key, b.Name) {
			all = append(all, Leftover{b.ID, b.Name, key})
		}
	}
	slices.SortFunc(all, func(x, y Leftover) int { return cmp.Compare(x.ID, y.ID) })
	return all
}

// Belongings are what goes with a balancer.
type Belongings struct {
	// Groups are the target groups that it alone leads to.
	Groups []cloud.TargetGroup
	// Security are the IDs of its security groups that are its Service's.
	Security []string
	// Rules are the IDs of other security groups with rules for it.
	Rules []string
}

// Belongings returns what goes with a leftover, as far as tags show that it is of the same
// Service.
func (a *Account) Belongings(cluster string, l Leftover) (all Belongings) {
	b := a.balancers[l.ID]
	ours := func(tags map[string]string) bool {
		return tags[clusterTag+cluster] == owned && tags[ServiceTag] == l.Service && tags[UIDTag] == b.Tags[UIDTag]
	}
	for _, id := range a.of.get(l.Service) {
		if g := a.groups[id]; ours(g.Tags) && len(g.Balancers) == 1 && g.Balancers[0] == l.ID {
			all.Groups = append(all.Groups, g)
		}
	}
	for _, id := range b.Security {
		if g, is := a.security[id]; is && ours(g.Tags) {
			all.Security = append(all.Security, id)
		}
	}
	for _, id := range a.ruled.get(l.Name) {
		if !slices.Contains(all.Security, id) {
			all.Rules = append(all.Rules, id)
		}
	}
	return all
}

// IsBalancerName reports whether a text can be the name of a Service's balancer.
func IsBalancerName(text string) bool {
	if len(text) != mostName || text[0] != 'a' {
		return false
	}
	for _, c := range text[1:] {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
