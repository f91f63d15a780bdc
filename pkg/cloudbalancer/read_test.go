package cloudbalancer

import (
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud"
)

func TestClaims(t *testing.T) {
	ours, theirs := "tulle.net/nlb", "service.k8s.aws/nlb"
	for name, test := range map[string]struct {
		change  func(*Service)
		noClass bool // without --default-load-balancer-class
		ours    bool
		why     string
	}{
		"type nlb":        {ours: true},
		"class":           {change: func(s *Service) { s.Class, s.Annotations = &ours, nil }, noClass: true, ours: true},
		"class and type":  {change: func(s *Service) { s.Class = &ours }, ours: true},
		"another class":   {change: func(s *Service) { s.Class = &theirs }, why: theirs},
		"no class":        {noClass: true, why: "--default-load-balancer-class"},
		"external":        {change: annotate(aType, "external"), why: "external"},
		"nlb-ip":          {change: annotate(aType, "nlb-ip"), why: "nlb-ip"},
		"no type":         {change: func(s *Service) { s.Annotations = nil }, why: "classic"},
		"a classic one":   {change: func(s *Service) { s.Hosts = []string{"a1-2.eu-west-1.elb.amazonaws.com"} }, why: "a1-2"},
		"no LoadBalancer": {change: func(s *Service) { s.Balances = false }},
		"a network one":   {change: func(s *Service) { s.Hosts = []string{"a1-2.elb.eu-west-1.amazonaws.com"} }, ours: true},
	} {
		s := service("web")
		if test.change != nil {
			test.change(&s)
		}
		c := Options{Cluster: testCluster, Class: ours, Default: !test.noClass, DefaultName: "--default-load-balancer-class"}.Claim(s)
		if c.Ours != test.ours || !strings.Contains(c.Why, test.why) || test.why == "" && c.Why != "" {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// Everything that is wrong is told with the value and the fix, and what is only superfluous
// stops nothing.
func TestWhatIsWrongWithServices(t *testing.T) {
	const arn = "arn:aws:acm:eu-west-1:123456789012:certificate/1"
	for name, test := range map[string]struct {
		change func(*Service)
		parts  []string
		mild   bool
	}{
		"scheme":             {annotate(aScheme, "public"), []string{"public", "internet-facing"}, false},
		"two schemes":        {annotate(aScheme, "internal", aInternal, "false"), []string{"contradicts"}, false},
		"IP targets":         {annotate(aTargetType, "ip"), []string{`"ip"`, "instance"}, false},
		"families":           {annotate(aFamilies, "ipv6"), []string{"dualstack"}, false},
		"addresses inside":   {annotate(aScheme, "internal", aAllocations, "eipalloc-1"), []string{"eipalloc-1", "leave it out"}, false},
		"an address":         {annotate(aScheme, "internal", aIPv4, "10.0.0.256"), []string{"10.0.0.256"}, false},
		"a security group":   {annotate(aSecurity, "default"), []string{"default", "sg-"}, false},
		"our tags":           {annotate(aTags, "kubernetes.io/cluster/other=owned"), []string{"kubernetes.io/cluster/other"}, false},
		"a legacy tag":       {annotate(aTags, "KubernetesCluster=other"), []string{"KubernetesCluster", "leave it out"}, false},
		"tags of another":    {annotate(aTags, "elbv2.k8s.aws/cluster=other"), []string{"elbv2.k8s.aws/cluster", "leave it out"}, false},
		"tags of a third":    {annotate(aTags, "service.k8s.aws/stack=default/db"), []string{"service.k8s.aws/stack", "leave it out"}, false},
		"a label":            {annotate(aNodeLabels, "a b=c"), []string{"a b=c"}, false},
		"a certificate":      {annotate(aCertificate, "mine"), []string{"mine", "ARN"}, false},
		"TLS without one":    {annotate(aTLSPorts, "443"), []string{"no certificate"}, true},
		"an unknown port":    {annotate(aCertificate, arn, aTLSPorts, "https"), []string{"https"}, true},
		"a policy":           {annotate(aCertificate, arn, aPolicy, "new policy!"), []string{"new policy!"}, false},
		"proxy protocol":     {annotate(aProxy, "true"), []string{"*"}, false},
		"cross zone":         {annotate(aCrossZone, "yes"), []string{"yes", "true or false"}, false},
		"a log to nowhere":   {annotate(aLog, "true"), []string{aLogBucket}, false},
		"an attribute":       {annotate(aAttributes, "load_balancing.cross_zone.enabled=maybe"), []string{"maybe"}, false},
		"no attribute":       {annotate(aGroupAttrs, "slow_start.duration_seconds=30"), []string{"slow_start"}, true},
		"a long drain":       {annotate(aGroupAttrs, "deregistration_delay.timeout_seconds=4000"), []string{"4000", "3600"}, false},
		"a short interval":   {annotate(aCheckInterval, "1"), []string{"5 to 300"}, false},
		"a long timeout":     {annotate(aCheckInterval, "5", aCheckTimeout, "9"), []string{"9", "interval"}, false},
		"a protocol":         {annotate(aCheckProtocol, "grpc"), []string{"grpc", "HTTP"}, false},
		"a path":             {annotate(aCheckProtocol, "http", aCheckPath, "healthz"), []string{"healthz", "/healthz"}, false},
		"an unknown one":     {annotate("healthcheck-intervall", "5"), []string{"healthcheck-intervall", "spelling"}, true},
		"the name":           {annotate("name", "web"), []string{"UID"}, true},
		"twice":              {annotate(aSubnets, "a,a"), []string{"twice"}, false},
		"a range":            {func(s *Service) { s.SourceRanges = []string{"10.0.0.0/33"} }, []string{"10.0.0.0/33", "192.0.2.0/24"}, false},
		"an address of mine": {func(s *Service) { s.Address = "192.0.2.1" }, []string{"192.0.2.1", aAllocations}, false},
		"SCTP":               {func(s *Service) { s.Ports[0].Protocol = "SCTP" }, []string{"SCTP", "TCP or UDP"}, false},
		"no ports":           {func(s *Service) { s.Ports = nil }, []string{"no ports"}, false},
		"no nodePort":        {func(s *Service) { s.Ports[0].NodePort = 0 }, []string{"allocateLoadBalancerNodePorts"}, false},
		"two nodePorts":      {func(s *Service) { s.Ports = append(s.Ports, Port{"u", "UDP", 80, 30081}) }, []string{"30080", "30081", "the same"}, false},
	} {
		s := service("web", test.change)
		_, problems := Options{Cluster: testCluster, Class: "tulle.net/nlb", Default: true}.Read(s)
		if len(problems) != 1 || problems[0].Fatal == test.mild {
			t.Errorf("%s: %+v", name, problems)
			continue
		}
		for _, part := range test.parts {
			if !strings.Contains(problems[0].Text, part) {
				t.Errorf("%s: %q lacks %q", name, problems[0].Text, part)
			}
		}
	}
}

// No annotation makes Read panic, and what it accepts has sound values.
func FuzzRead(f *testing.F) {
	for _, name := range served {
		f.Add(name, "true,a=b,443,sg-1,*", "192.0.2.0/24")
	}
	f.Fuzz(func(t *testing.T, name, value, ranges string) {
		s := service("web", annotate(name, value))
		s.Annotations[SourceRangesAnnotation] = ranges
		w, problems := Options{Cluster: testCluster, Class: "tulle.net/nlb", Default: true}.Read(s)
		for _, p := range problems {
			if p.Fatal {
				return
			}
		}
		if len(w.Fronts) != 1 || len(w.Sources) == 0 {
			t.Fatalf("%+v", w)
		}
		h := w.Fronts[0].Health
		if h.Interval < 5 || h.Timeout < 2 || h.Timeout > h.Interval || h.Healthy < 2 || h.Protocol == cloud.TCP && h.Path != "" {
			t.Errorf("%+v", h)
		}
		for key := range w.Tags {
			if strings.HasPrefix(key, "kubernetes.io/") {
				t.Errorf("tags %v", w.Tags)
			}
		}
	})
}
