package cloudbalancer

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
)

// TypeAnnotation says which controller serves a Service without a class.
const TypeAnnotation = Prefix + "type"

// Claim reports whether a Service is ours.
func (o Options) Claim(s Service) Claim {
	kind, typed := s.Annotations[TypeAnnotation]
	switch {
	case !s.Balances:
		return Claim{}
	case s.Class != nil && *s.Class != o.Class:
		return Claim{Why: fmt.Sprintf("its class %.253q is another controller's; ours is %s", *s.Class, o.Class)}
	case s.Class == nil && !o.Default:
		return Claim{Why: "it has no class; set spec.loadBalancerClass to " + o.Class + ", which a Service can only have from its creation on, or start the controller with " + cmp.Or(o.DefaultName, "Services without a class")}
	case typed && kind != "nlb":
		return Claim{Why: fmt.Sprintf("its annotation %s is %.80q, which another controller serves; ours is nlb", TypeAnnotation, kind)}
	case s.Class == nil && !typed:
		return Claim{Why: "without a class and the annotation " + TypeAnnotation + ": nlb, it asks for a classic load balancer, which we do not make; add the annotation"}
	}
	for _, host := range s.Hosts {
		if strings.HasSuffix(host, ".elb.amazonaws.com") {
			return Claim{Why: fmt.Sprintf("it has the classic load balancer %.253s of another controller; re-create the Service for a network load balancer", host)}
		}
	}
	return Claim{Ours: true}
}

var classPattern = regexp.MustCompile(`^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

// IsClass reports whether a text can be the loadBalancerClass of a Service.
func IsClass(text string) bool { return classPattern.MatchString(text) }
