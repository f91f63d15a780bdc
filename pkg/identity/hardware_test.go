package identity

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// sys makes a /sys of interfaces, whose files are as given.
func sys(t *testing.T, uuid string, links map[string]map[string]string) string {
	t.Helper()
	root := t.TempDir()
	put := func(path, text string) {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if uuid != "" {
		put("class/dmi/id/product_uuid", uuid)
	}
	for name, files := range links {
		for file, text := range files {
			put("class/net/"+name+"/"+file, text)
		}
	}
	return root
}

func TestReadHardware(t *testing.T) {
	eth := func(mac string) map[string]string {
		return map[string]string{"address": mac + "\n", "device": "", "uevent": "INTERFACE=eth0\n"}
	}
	veth := func(mac string) map[string]string {
		return map[string]string{"address": mac + "\n", "uevent": "INTERFACE=veth0\n"}
	}
	lo := map[string]string{"address": "00:00:00:00:00:00\n", "uevent": "INTERFACE=lo\n"}
	bridge := map[string]string{"address": "02:42:00:00:00:01\n", "uevent": "DEVTYPE=bridge\nINTERFACE=docker0\n"}
	port := veth("02:00:00:00:00:08")
	port["master"] = ""
	for name, c := range map[string]struct {
		uuid  string
		links map[string]map[string]string
		want  Hardware
	}{
		"a host": {"4C4C4544-0001\n", map[string]map[string]string{
			"lo": lo, "eth1": eth("02:00:00:00:00:02"), "eth0": eth("02:00:00:00:00:01"), "bond0": eth("02:00:00:00:00:01"),
			"docker0": bridge, "veth1": veth("02:00:00:00:00:09"), "ib0": eth("80:00:00:00:fe:80:00:00:00:00:00:00:00:00:00:00:00:00:00:01"),
		}, Hardware{"4c4c4544-0001", []string{"02:00:00:00:00:01", "02:00:00:00:00:02"}}},
		"a container":         {"", map[string]map[string]string{"lo": lo, "eth0": veth("02:00:00:00:00:03"), "docker0": bridge, "veth7": port}, Hardware{"", []string{"02:00:00:00:00:03"}}},
		"nothing":             {"", nil, Hardware{}},
		"an unprintable UUID": {"a\x07b\n", nil, Hardware{}},
		"a garbled address":   {"", map[string]map[string]string{"eth0": eth("x")}, Hardware{}},
	} {
		if got := ReadHardware(sys(t, c.uuid, c.links)); got.UUID != c.want.UUID || !slices.Equal(got.MACs, c.want.MACs) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
