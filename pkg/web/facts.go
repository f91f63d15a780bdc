package web

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tulle-net/tulle/pkg/page"
)

// facts returns the facts about the node, in any state.
func (r reading) facts() []page.Section {
	all := append([]page.Section{r.nodeFacts(), r.networkFacts(), r.storeFacts(), r.probeFacts()}, r.wireguardFacts()...)
	return append(all, r.kernelFacts(), r.firewallFacts())
}

func (r reading) nodeFacts() page.Section {
	s := page.Section{Name: "This node"}
	if l := r.Lease; l != nil {
		s.AddCode("subnet", page.Join(l.Subnets))
		s.AddCode("public IP", page.Join(l.Addresses))
		if l.Reservation {
			s.Add("lease", "reservation")
		}
		if l.Since != nil {
			s.AddTime("held for", page.Since(r.at, *l.Since))
		}
		if l.Renewed != nil {
			s.AddTime("renewed", page.Past(r.at, *l.Renewed))
		}
	} else {
		s.Add("subnet", pick(r.Stuck != "", "unknown", "none"))
	}
	for _, i := range r.Interfaces {
		words := i.Name + " " + i.Address.String()
		if i.Public != i.Address {
			words += ", published as " + i.Public.String()
		}
		s.AddCode(i.Family, words)
		s.Add("", "MTU "+strconv.Itoa(i.MTU)+", chosen by "+i.Why)
	}
	return s
}

func (r reading) networkFacts() page.Section {
	s := page.Section{Name: "Network"}
	if r.Network.Backend != "" {
		s.AddCode("networks", page.Join(r.Network.Networks))
		s.Add("backend", r.Network.Backend)
		if r.Network.MTU > 0 {
			s.Add("MTU", strconv.Itoa(r.Network.MTU))
		}
	}
	if len(r.Network.Devices) > 0 {
		s.AddCode("tunnels", strings.Join(r.Network.Devices, " "))
	}
	s.Add("peers", page.Grouped(r.Peers.All))
	if n := r.Reserved; n > 0 {
		s.Add("reserved", page.Count(n, "lease"))
	}
	if n := r.RejectedCount; n > 0 {
		s.Class = page.Warn
		s.Add("rejected", page.Count(n, "lease"))
	}
	return s
}

func (r reading) storeFacts() page.Section {
	s := page.Section{Name: "Store"}
	s.Add("kind", r.Store.Kind)
	for _, e := range r.Store.Endpoints[:min(mostList, len(r.Store.Endpoints))] {
		s.AddCode("", e)
	}
	if r.Store.Revision != 0 {
		s.Add("revision", strconv.FormatInt(r.Store.Revision, 10))
	}
	if t := r.Store.Watching; t != nil {
		s.AddTime("watching for", page.Since(r.at, *t))
	}
	if t := r.Store.LastAt; t != nil && r.Store.Last != nil && len(r.Store.Failing) == 0 {
		s.AddTime("last failure", page.Past(r.at, *t))
		s.Add("", r.Store.Last.What+": "+r.Store.Last.Why)
	}
	if len(r.Store.Failing) > 0 || r.Remembered != nil {
		s.Class = page.Warn
	}
	return s
}

func (r reading) kernelFacts() page.Section {
	k := r.Kernel
	s := page.Section{Name: "Kernel"}
	s.AddTime(pick(k.InSync, "in sync for", "NOT in sync for"), page.Since(r.at, k.Since))
	s.Add("objects", page.Grouped(k.Objects))
	if k.Pending > 0 {
		s.Add("pending", page.Grouped(k.Pending))
	}
	if n := len(k.Failing); n > 0 {
		s.Add("failing", page.Grouped(n))
	}
	if !k.InSync || len(k.Failing)+len(k.Problems) > 0 {
		s.Class = page.Warn
	}
	s.AddTime("last full resync", page.Past(r.at, k.LastResync))
	s.Add("duration", strconv.FormatFloat(k.ResyncMillis, 'f', 1, 64)+" ms")
	healed := ""
	for _, kind := range slices.Sorted(maps.Keys(k.Healed)) {
		if n := k.Healed[kind]; n > 0 {
			healed += pick(healed == "", "", ", ") + kind + " " + strconv.FormatUint(n, 10)
		}
	}
	s.Add("drift restored", cmp.Or(healed, "never"))
	return s
}

func (r reading) firewallFacts() page.Section {
	s := page.Section{Name: "Firewall and files"}
	text := "in sync"
	switch f := r.Firewall; {
	case f.Problem != "":
		s.Class, text = page.Bad, "NOT in sync"
	case !f.Written:
		s.Class, text = page.Bad, "not written yet"
	}
	s.Add("rules", text)
	for _, text := range r.Firewall.Others {
		s.Class = cmp.Or(s.Class, page.Warn)
		s.Add("foreign", text)
	}
	if n := r.Firewall.Healed; n > 0 {
		s.Add("drift restored", strconv.FormatUint(n, 10)+" times")
	}
	if n := len(r.Files); n > 0 {
		s.Class = page.Bad
		s.Add("files", page.Count(n, "file")+" NOT up to date")
	} else {
		s.Add("files", "up to date")
	}
	return s
}
