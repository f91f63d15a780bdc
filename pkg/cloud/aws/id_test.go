package aws

import (
	"strings"
	"testing"
)

func TestProviderIDs(t *testing.T) {
	for text, want := range map[string]string{
		"aws:///eu-west-1a/i-0123456789abcdef0":           "i-0123456789abcdef0",
		"aws:////i-0123456789abcdef0":                     "i-0123456789abcdef0",
		"i-0123456789abcdef0":                             "i-0123456789abcdef0",
		"aws:///eu-west-1-lax-1a/i-0123456789abcdef0":     "i-0123456789abcdef0",
		"gce://my-project/europe-west1-b/worker-1":        "error: another cloud",
		"aws:///eu-west-1a/fargate-10.0.0.7":              "error: Fargate",
		"aws:///eu-central-1a/i-0123456789abcdef0":        "error: zone eu-central-1a is not in region eu-west-1",
		"aws:///eu-west-1a/i-*":                           "error: has no valid instance ID",
		"aws:///eu-west-1a/i-0123456789ABCDEF0":           "error: has no valid instance ID",
		"aws:///eu-west-1a/i-0123456789abcdef0/more":      "error: use one like aws:///",
		"aws://host/eu-west-1a/i-0123456789abcdef0":       "error: use one like aws:///",
		"aws:///eu-west-1a?/i-0123456789abcdef0":          "error: has no valid zone",
		"aws:///eu-west-1a/i-0123456789abcdef0\n":         "error: has no valid instance ID",
		"aws:///eu-west-1a/" + strings.Repeat("i-0", 999): "error: has no valid instance ID",
		"": "error: has no valid instance ID",
	} {
		got, err := parseID(text, "eu-west-1")
		if part, bad := strings.CutPrefix(want, "error: "); bad && (err == nil || !strings.Contains(err.Error(), part)) || !bad && (err != nil || got != want) {
			t.Errorf("%.60q: %q, %v", text, got, err)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("%.60q: an error of %d bytes", text, len(err.Error()))
		}
	}
}

// FuzzProviderID: an accepted text is an instance ID without wildcards.
func FuzzProviderID(f *testing.F) {
	for _, seed := range []string{"aws:///eu-west-1a/i-0123456789abcdef0", "i-1", "aws:///", "aws:////i-*", "aws:///eu-west-1a/i-1?"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := parseID(text, "eu-west-1")
		if err == nil && (!strings.HasPrefix(id, "i-") || strings.Trim(id[2:], "0123456789abcdef") != "" || !strings.HasSuffix(text, id)) {
			t.Errorf("%q is %q", text, id)
		}
	})
}

func TestClusterNamesFitTags(t *testing.T) {
	for name, want := range map[string]bool{
		"prod":                   true,
		"Prod_1 a.b:c/d=e+f@g-h": true,
		"büro-Ⅷ-集群":              true,
		strings.Repeat("ü", 106): true,
		strings.Repeat("a", 107): false,
		"":                       false,
		"a*":                     false,
		"a?b":                    false,
		"a\nb":                   false,
		"a\xffb":                 false,
		"a\u00a0b":               false,
	} {
		if err := CheckCluster(name); (err == nil) != want {
			t.Errorf("%q: %v", name, err)
		}
	}
}
