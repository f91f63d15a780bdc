package cloudbalancer

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// readFronts reads the ports.
func (w *Want) readFronts(r *reader, s Service) {
	refuse := func(text string, args ...any) {
		r.problems = append(r.problems, Problem{true, fmt.Sprintf(text, args...)})
	}
	if len(s.Ports) > mostPorts {
		refuse("the Service has %d ports; use at most %d", len(s.Ports), mostPorts)
		s.Ports = s.Ports[:mostPorts]
	}
	for _, p := range s.Ports {
		switch {
		case p.Protocol != string(cloud.TCP) && p.Protocol != string(cloud.UDP):
			refuse("port %d: a network load balancer does not balance %.20q; use TCP or UDP", p.Port, p.Protocol)
			continue
		case p.Port < 1 || p.Port > 65535:
			refuse("port %d is not from 1 to 65535; correct it", p.Port)
			continue
		case p.NodePort == 0:
			refuse("port %d has no nodePort; set spec.allocateLoadBalancerNodePorts to true", p.Port)
			continue
		}
		f := Front{Port: p.Port, Protocol: cloud.Protocol(p.Protocol), NodePort: p.NodePort, Backend: cloud.Protocol(p.Protocol)}
		i := slices.IndexFunc(w.Fronts, func(other Front) bool { return other.Port == p.Port })
		if i < 0 {
			w.Fronts = append(w.Fronts, f)
			continue
		}
		switch other := &w.Fronts[i]; {
		case other.Protocol == f.Protocol:
			refuse("port %d is there twice; leave one out", p.Port)
		case other.NodePort != f.NodePort:
			refuse("port %d has the nodePort %d for %s and %d for %s; give both the same, because a network load balancer balances them together", p.Port, other.NodePort, other.Protocol, f.NodePort, f.Protocol)
		default:
			other.Protocol, other.Backend = cloud.TCPUDP, cloud.TCPUDP
		}
	}
	if len(s.Ports) == 0 {
		refuse("the Service has no ports; add one")
	}
	slices.SortFunc(w.Fronts, func(a, b Front) int { return a.Port - b.Port })
	w.readTLS(r, s)
	for i := range w.Fronts {
		w.Fronts[i].Health = r.health(s, w.Fronts[i].Backend)
	}
	if len(w.Fronts) == 0 {
		r.health(s, cloud.TCP) // tells what is wrong with its annotations
	}
	rules := 0
	for _, f := range w.Fronts {
		rules += len(protocols(f.Protocol)) * len(w.Sources)
	}
	if rules += len(w.Sources); rules > mostRules {
		refuse("%d source ranges for %d ports need %d rules, and a security group has at most %d; use fewer ranges", len(w.Sources), len(w.Fronts), rules, mostRules)
	}
}

// few returns each problem once, and of many only the first, those that are fatal before
// the others.
func few(all []Problem) (some []Problem) {
	seen := make(map[Problem]bool)
	for _, p := range all {
		if !seen[p] {
			seen[p], some = true, append(some, p)
		}
	}
	if len(some) <= mostProblems {
		return some
	}
	slices.SortStableFunc(some, func(a, b Problem) int {
		switch {
		case a.Fatal == b.Fatal:
			return 0
		case a.Fatal:
			return -1
		}
		return 1
	})
	more := len(some) - mostProblems
	next := some[mostProblems].Fatal
	return append(some[:mostProblems:mostProblems], Problem{next, fmt.Sprintf("there are %d more problems; correct these first", more)})
}

// readTLS reads which ports end the encryption of their clients.
func (w *Want) readTLS(r *reader, s Service) {
	arn, is := r.text(aCertificate)
	policy, _ := r.text(aPolicy)
	alpn, _ := r.choice(aALPN, alpnPolicies...)
	backend, _ := r.choice(aBackend, "tcp", "ssl")
	ports, some := r.list(aTLSPorts), false
	if _, has := r.text(aTLSPorts); has && ports != nil {
		some = !slices.Contains(ports, "*")
	}
	switch {
	case !is:
		for _, name := range []string{aTLSPorts, aPolicy, aALPN, aBackend} {
			if _, has := r.text(name); has && (name != aBackend || backend == "ssl") {
				r.ignored(name, "there is no certificate; name one in "+Prefix+aCertificate)
			}
		}
		return
	case !certificate.MatchString(arn):
		r.fatal(aCertificate, "is no certificate", "use one ARN of a certificate of ACM or IAM")
	case policy != "" && !policyName.MatchString(policy):
		r.fatal(aPolicy, "is no policy", "use the name of a security policy, like ELBSecurityPolicy-TLS13-1-2-2021-06")
	}
	used := make(map[string]bool)
	for i := range w.Fronts {
		f := &w.Fronts[i]
		names := []string{strconv.Itoa(f.Port)}
		for _, p := range s.Ports {
			if p.Port == f.Port && p.Name != "" && p.Protocol == string(cloud.TCP) {
				names = append(names, p.Name)
			}
		}
		chosen := !some
		for _, name := range names {
			if some && slices.Contains(ports, name) {
				chosen, used[name] = true, true
			}
		}
		switch {
		case !chosen || f.Protocol == cloud.UDP && !some:
		case f.Protocol != cloud.TCP:
			r.problems = append(r.problems, Problem{true, fmt.Sprintf("port %d has a certificate and UDP; leave it out of %s%s", f.Port, Prefix, aTLSPorts)})
		default:
			f.Protocol, f.Certificate, f.Policy, f.ALPN = cloud.TLS, arn, policy, alpn
			if backend == "ssl" {
				f.Backend = cloud.TLS
			}
		}
	}
	for _, name := range ports {
		if some && !used[name] {
			r.problems = append(r.problems, Problem{false, fmt.Sprintf("annotation %s%s: the Service has no port %.80q; correct it", Prefix, aTLSPorts, name)})
		}
	}
}
