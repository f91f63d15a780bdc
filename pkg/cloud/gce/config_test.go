package gce

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/oauth2"

	"github.com/tulle-net/tulle/pkg/cloud/gce/gcetest"
)

func TestCloudConfigOfGoogle(t *testing.T) {
	text := `[global]
project-id = my-project-1
network-project-id = host-project-1
network-name = prod
subnetwork-name = nodes
node-tags = a
node-tags = b
node-instance-prefix = gke-
multizone = true
local-zone = europe-west1-b
stack-type = IPV6
token-url = nil
api-endpoint = https://compute.example.org/compute/v1/
colour = blue
[other]
x = y
`
	file := filepath.Join(t.TempDir(), "gce.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, warnings, err := ReadConfig(file, Names{Secondary: "--secondary"})
	want := Config{
		Project: "my-project-1", Network: "prod", NetworkProject: "host-project-1", Zone: "europe-west1-b", Regional: true, IPv6First: true,
		Endpoint: "https://compute.example.org/compute/v1/",
	}
	if err != nil || got != want {
		t.Fatalf("%+v, %v", got, err)
	}
	all := strings.Join(warnings, "\n")
	for _, part := range []string{"line 5: subnetwork-name is about load balancers", "node-tags is about the firewall rules", "colour is unknown", `unknown section "other"`} {
		if !strings.Contains(all, part) {
			t.Errorf("no warning has %q:\n%s", part, all)
		}
	}
	if len(warnings) != 6 {
		t.Errorf("%d warnings:\n%s", len(warnings), all)
	}
	if c, _, err := ParseConfig("[Global]\nnetwork-name=https://www.googleapis.com/compute/v1/projects/host-1/global/networks/prod\n", Names{}); err != nil || c.Network != "prod" || c.NetworkProject != "host-1" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, _, err := ReadConfig(filepath.Join(t.TempDir(), "none"), Names{}); err == nil {
		t.Error("there is no such file")
	}
}

func TestBadCloudConfigsOfGoogle(t *testing.T) {
	for line, part := range map[string]string{
		"project-id=123456789": "not the ID of a project", "project-id=A": "line 2: project-id", "network-name=a/b": "URL of a network", "network-name=A": "name of a network",
		"local-zone=x": "not a zone", "multizone=maybe": "neither true nor false", "stack-type=IPV5": "not a type of stack", "network-project-id=": "ID of a project",
		"api-endpoint=https://secret@host": "without a user", "token-url=https://tokens.example.org": "Application Default Credentials", "x": "",
	} {
		_, _, err := ParseConfig("[Global]\n"+line+"\n", Names{})
		if (err == nil) != (part == "") || err != nil && (!strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// FuzzGoogleConfig: what is accepted goes into a filter or a path as it is.
func FuzzGoogleConfig(f *testing.F) {
	for _, seed := range []string{"[Global]\nproject-id=my-project-1\n", "[Global]\nnetwork-name=projects/a-project/global/networks/b\n", "[Global]\nlocal-zone=a-b\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, _, err := ParseConfig(text, Names{})
		if err != nil {
			return
		}
		for _, project := range []string{c.Project, c.NetworkProject} {
			if project != "" && CheckProject(project) != nil {
				t.Errorf("%q: %+v", text, c)
			}
		}
		if c.Network != "" && !instanceName.MatchString(c.Network) || c.Zone != "" && !zoneName.MatchString(c.Zone) {
			t.Errorf("%q: %+v", text, c)
		}
	})
}

// Without a name in the config, the network is that of the instance that the program runs
// on.
func TestTheNetworkOfTheMetadataServer(t *testing.T) {
	s := gcetest.New(t)
	s.AddNetwork("prod", "10.128.0.0/16")
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(s.URL, "http://"))
	for said, want := range map[string]string{"projects/123456789/networks/prod": gcetest.Project + "/prod", "projects/1/networks/../x": "", "projects/1/networks/A": ""} {
		s.Do(func() { s.Network = said })
		c, err := NewWith(Options{Project: gcetest.Project, Endpoint: s.Endpoint(), Cluster: "prod"}, oauth2.StaticTokenSource(&oauth2.Token{AccessToken: gcetest.Token}))
		if err != nil {
			t.Fatal(err)
		}
		all, err := c.Tables(t.Context())
		if want == "" && (err == nil || !strings.Contains(err.Error(), "network-name")) || want != "" && (err != nil || all[0].ID != want) {
			t.Errorf("%s: %v, %v", said, all, err)
		}
	}
}

func TestNamesOfClusters(t *testing.T) {
	for name, ok := range map[string]bool{"kubernetes": true, "a-1": true, "": false, "A": false, "1a": false, "a.b": false, "a_b": false} {
		if err := CheckCluster(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
	c := Client{options: Options{Cluster: strings.Repeat("long", 20)}}
	if name := c.routeName("n", netip.MustParsePrefix("10.4.0.0/24"), "z/i", usual); len(name) > 63 || !routeNames.MatchString(name) {
		t.Errorf("%q", name)
	}
}

// TestClustersWithLongNamesShareNoMark: two clusters whose names begin alike have marks of
// their own. Both see what Google's own controller wrote, which cuts the name.
func TestClustersWithLongNamesShareNoMark(t *testing.T) {
	const begin = "production-europe-west-one" // 26 characters
	of := func(cluster string) *Client { return &Client{options: Options{Cluster: cluster}} }
	marked := func(c *Client, name string) bool {
		return c.isMarked(&route{Name: name, Description: mark, Instance: "i"})
	}
	to, a, b := netip.MustParsePrefix("10.4.0.0/24"), of(begin+"-blue"), of(begin+"-green")
	for _, c := range []*Client{a, b, of(begin), of("x")} {
		name := c.routeName("net", to, "z/i", usual)
		if len(name) > 63 || !routeNames.MatchString(name) || !marked(c, name) {
			t.Errorf("%q", name)
		}
	}
	if name := a.routeName("net", to, "z/i", usual); marked(b, name) || !strings.HasPrefix(name, "production-europe-") {
		t.Errorf("%q", name)
	}
	if name := begin + "-0b1c5b0e-7c1f-4c2e-9a53-0d6a8ff6f1a1"; !marked(a, name) || !marked(b, name) || !marked(of(begin), name) {
		t.Errorf("%q", name)
	}
}

// TestShareOfTheRates: the share scales every budget, and no bucket is empty.
func TestShareOfTheRates(t *testing.T) {
	for _, bucket := range []string{reads, changes, polls} {
		usual, all, least := budgetOf(bucket, defaultShare), budgetOf(bucket, 1), budgetOf(bucket, 0.01)
		if all.Rate != 2*usual.Rate || all.Burst != 2*usual.Burst || least.Burst < 1 || usual.Rate > 12.5 {
			t.Errorf("%s: %v, %v, %v", bucket, usual, all, least)
		}
	}
}
