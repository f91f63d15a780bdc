package cloudbalancer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/budget"
)

// However long its annotations are, a Service is read in no time, and the little that is
// reported for it says that it is invalid.
func TestHostileServicesAreReadFast(t *testing.T) {
	const size = 256 << 10
	many := func(item func(i int) string) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			b.WriteString(item(i) + ",")
		}
		return b.String()
	}
	texts := map[string]string{
		"different items": many(func(i int) string { return fmt.Sprint(i) }),
		"the same item":   many(func(int) string { return "a" }),
		"pairs":           many(func(i int) string { return fmt.Sprintf("k%d=v", i) }),
		"the same pair":   many(func(int) string { return "a=b" }),
		"commas":          strings.Repeat(",", size),
		"a long word":     strings.Repeat("a", size),
		"a certificate":   "arn:aws:acm::" + strings.Repeat(":a", size/2),
	}
	const arn = "arn:aws:acm:eu-west-1:123456789012:certificate/1"
	services := make(map[string]Service)
	for what, text := range texts {
		for _, name := range served {
			s := service("web", annotate(aCertificate, arn, name, text))
			services[name+" of "+what] = s
		}
		s := service("web")
		s.Annotations[SourceRangesAnnotation] = text
		services["ranges of "+what] = s
	}
	services["unknown annotations"] = service("web", func(s *Service) {
		for i := range 4000 {
			s.Annotations[fmt.Sprint(Prefix, "unknown-", i)] = "x"
		}
	})
	services["ranges"] = service("web", func(s *Service) {
		for i := range 100_000 {
			s.SourceRanges = append(s.SourceRanges, fmt.Sprintf("10.%d.%d.%d/32", i>>16, i>>8&255, i&255))
		}
	})
	services["ports"] = service("web", annotate(aCheckInterval, "x", aCertificate, arn), func(s *Service) {
		for i := range 20_000 {
			s.Ports = append(s.Ports, Port{fmt.Sprint("p", i), "TCP", 1000 + i, 30000})
		}
	})
	services["ranges and ports"] = service("web", func(s *Service) {
		for i := range 90 {
			s.SourceRanges = append(s.SourceRanges, fmt.Sprintf("10.0.%d.0/24", i))
			s.Ports = append(s.Ports, Port{fmt.Sprint("p", i), "TCP", 1000 + i, 30000 + i})
		}
	})
	for what, s := range services {
		took := budget.Processor()
		_, problems := Options{Cluster: testCluster}.Read(s)
		if spent := took(); spent >= 500*time.Millisecond {
			t.Errorf("%s: read in %s of processor time", what, spent)
		}
		length := 0
		for _, p := range problems {
			length += len(p.Text)
		}
		if len(problems) > mostProblems+1 || length > 10_000 {
			t.Errorf("%s: %d problems of %d bytes", what, len(problems), length)
		}
	}
	for what, s := range map[string]Service{
		"items": service("web", annotate(aExtra, many(func(i int) string { return fmt.Sprint("sg-", i) }))), "ranges": services["ranges"], "ports": services["ports"], "ranges and ports": services["ranges and ports"],
	} {
		if _, problems := (Options{Cluster: testCluster}).Read(s); !slices.ContainsFunc(problems, func(p Problem) bool { return p.Fatal && strings.Contains(p.Text, "at most") }) {
			t.Errorf("%s: %+v", what, problems)
		}
	}
}

// A fatal problem is told, whatever comes before it, with how many are not told.
func TestManyProblemsBecomeFew(t *testing.T) {
	s := service("web", annotate(aCheckInterval, "x"))
	for i := range 20 {
		s.Annotations[fmt.Sprint(Prefix, "a-", i)] = "x"
	}
	_, problems := Options{Cluster: testCluster}.Read(s)
	if len(problems) != mostProblems+1 || !problems[0].Fatal || problems[10] != (Problem{false, "there are 11 more problems; correct these first"}) {
		t.Errorf("%+v", problems)
	}
}
