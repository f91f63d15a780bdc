package awsnet

import (
	"fmt"
	"strings"
	"testing"
)

// zonesOf returns the zones of a region: a, b, c and d, and an edge zone of either type.
func zonesOf(region string) (all []Zone) {
	for _, letter := range "abcd" {
		all = append(all, Zone{Name: region + string(letter), Type: RegularZone, Usable: true})
	}
	return append(all,
		Zone{Name: region + "-bos-1a", Type: LocalZone, Parent: region + "b", Usable: true},
		Zone{Name: region + "-wl1-bos-wlz-1", Type: WavelengthZone, Parent: region + "a", Usable: true},
		Zone{Name: region + "e", Type: RegularZone},
	)
}

var zones = zonesOf("us-east-1")

// file returns an AWSCluster with a spec in YAML, indented by two spaces or not at all.
func fileOf(spec string) string {
	text := "apiVersion: infrastructure.cluster.x-k8s.io/v1beta2\nkind: AWSCluster\nmetadata: {name: prod}\nspec:\n  region: us-east-1\n"
	for line := range strings.SplitSeq(strings.Trim(spec, "\n"), "\n") {
		text += "  " + line + "\n"
	}
	return text
}

// specOf reads a spec in YAML.
func specOf(t testing.TB, spec string) Spec {
	t.Helper()
	m, err := ParseFile([]byte(fileOf(spec)))
	if err != nil {
		t.Fatalf("%v\n%s", err, fileOf(spec))
	}
	return m.Spec
}

// networkOf returns the Network of a spec in YAML.
func networkOf(t testing.TB, spec string) Network {
	t.Helper()
	n, problems := Complete(specOf(t, spec), zones)
	if len(problems) > 0 {
		t.Fatalf("%v\n%s", problems, spec)
	}
	return n
}

// blocksOf returns the subnets of a Network, one a line.
func blocksOf(n Network) string {
	var lines []string
	for _, s := range n.Subnets {
		line := fmt.Sprintf("%s %s %s", roleOf(s.Public), s.Zone, s.IPv4)
		if s.HasIPv6 {
			line += fmt.Sprintf(" %d%v", s.IPv6.Nth, s.IPv6.Prefix)
		}
		lines = append(lines, strings.TrimSuffix(strings.TrimSuffix(line, "invalid Prefix"), " "))
	}
	return strings.Join(lines, "\n")
}
