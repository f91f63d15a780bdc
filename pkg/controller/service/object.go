package service

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tulle-net/tulle/pkg/cloudbalancer"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/kube"
)

// Services is the path of the Services.
const Services = "api/v1/services"

// Finalizer keeps a Service until its balancer is gone, as cloud controller managers have
// it.
const Finalizer = "service.kubernetes.io/load-balancer-cleanup"

// object holds the fields of a Service that we use.
type object struct {
	Metadata struct {
		Namespace string `json:"namespace"`
		kube.Meta
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Type       string   `json:"type"`
		Class      *string  `json:"loadBalancerClass"`
		Address    string   `json:"loadBalancerIP"`
		Sources    []string `json:"loadBalancerSourceRanges"`
		Policy     string   `json:"externalTrafficPolicy"`
		HealthPort int      `json:"healthCheckNodePort"`
		Affinity   string   `json:"sessionAffinity"`
		Families   []string `json:"ipFamilies"`
		Ports      []struct {
			Name     string `json:"name"`
			Protocol string `json:"protocol"`
			Port     int    `json:"port"`
			NodePort int    `json:"nodePort"`
		} `json:"ports"`
	} `json:"spec"`
	Status struct {
		Balancer struct {
			Ingress []struct {
				Host string `json:"hostname"`
				IP   string `json:"ip"`
			} `json:"ingress"`
		} `json:"loadBalancer"`
	} `json:"status"`
}

var objectFormat = kube.JSON[object]("Service")

// state is what a Service says.
type state struct {
	cloudbalancer.Service
	version    kube.Version
	revision   int64
	deleting   bool
	finalizers []string
	// addressed is set if the status has an address without a host name.
	addressed bool
}

// keep returns what to keep of a Service: of one without a balancer, only that it is
// there.
func keep(o *object) (key string, s state) {
	m := &o.Metadata
	s.Ref = cloudbalancer.Ref{Namespace: m.Namespace, Name: m.Name, UID: m.UID}
	s.Balances = o.Spec.Type == "LoadBalancer"
	s.finalizers = m.Finalizers
	if !s.Balances && !s.finalized() {
		s.finalizers = nil
		return s.Key(), s
	}
	s.version, s.deleting = m.Version, m.DeletionTimestamp != ""
	s.revision, _ = strconv.ParseInt(m.ResourceVersion, 10, 64)
	for name, value := range m.Annotations {
		if strings.HasPrefix(name, cloudbalancer.Prefix) || name == cloudbalancer.SourceRangesAnnotation {
			if s.Annotations == nil {
				s.Annotations = make(map[string]string)
			}
			s.Annotations[name] = value
		}
	}
	s.Class, s.Address, s.SourceRanges, s.HealthPort, s.Families = o.Spec.Class, o.Spec.Address, o.Spec.Sources, o.Spec.HealthPort, o.Spec.Families
	s.Local, s.Sticky = o.Spec.Policy == "Local", o.Spec.Affinity == "ClientIP"
	for _, p := range o.Spec.Ports {
		protocol := p.Protocol
		if protocol == "" {
			protocol = "TCP"
		}
		s.Ports = append(s.Ports, cloudbalancer.Port{Name: p.Name, Protocol: protocol, Port: p.Port, NodePort: p.NodePort})
	}
	for _, i := range o.Status.Balancer.Ingress {
		if i.Host != "" {
			s.Hosts = append(s.Hosts, i.Host)
		} else {
			s.addressed = true
		}
	}
	return s.Key(), s
}

// finalized reports whether the Service has our finalizer.
func (s state) finalized() bool { return slices.Contains(s.finalizers, Finalizer) }

// isOlder reports whether s is an earlier state of the same Service than another one.
func (s state) isOlder(than state) bool {
	return s.UID == than.UID && s.revision != 0 && s.revision < than.revision
}

// ref returns the Service as an object of events and writes.
func (s state) ref() controller.Ref {
	return controller.Ref{Kind: "Service", Namespace: s.Namespace, Name: s.Name, UID: s.UID}
}
