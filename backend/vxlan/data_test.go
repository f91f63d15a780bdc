package vxlan

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// TestFormatData compares the output with flannel's, byte for byte.
func TestFormatData(t *testing.T) {
	for want, d := range map[string]data{
		`{"VNI":1,"VtepMAC":"3a:66:6c:61:6e:01"}`:     {1, netstate.MAC{0x3a, 0x66, 0x6c, 0x61, 0x6e, 0x01}},
		`{"VNI":65535,"VtepMAC":"02:00:00:00:00:00"}`: {65535, netstate.MAC{2}},
		`{"VNI":0,"VtepMAC":"fe:dc:ba:98:76:54"}`:     {0, netstate.MAC{0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54}},
	} {
		if got := formatData(d.vni, d.mac); got != want {
			t.Errorf("%v is written %s, want %s", d, got, want)
		}
		if got, err := parseData(want); got != d || err != nil {
			t.Errorf("%s is read as %v, %v", want, got, err)
		}
	}
}

// TestLargeVNI checks a VNI of more than 16 bits. Flannel publishes only its lower 16
// bits, and reads no more.
func TestLargeVNI(t *testing.T) {
	mac := netstate.MAC{2}
	if got, want := formatData(70000, mac), `{"VNI":4464,"VtepMAC":"02:00:00:00:00:00"}`; got != want {
		t.Errorf("written %s, want %s", got, want)
	}
	device := netstate.Link{VXLAN: netstate.VXLAN{VNI: 70000}}
	for vni, fits := range map[uint32]bool{4464: true, 70000: true, 0: true, 4465: false} {
		if err := (data{vni, mac}).fits(device); (err == nil) != fits {
			t.Errorf("VNI %d: %v", vni, err)
		}
	}
}

func TestParseData(t *testing.T) {
	mac := netstate.MAC{0x3a, 0, 0, 0, 0, 1}
	for text, want := range map[string]data{
		`{"VNI":1,"VtepMAC":"3a:00:00:00:00:01"}`:             {1, mac},
		`{"VtepMAC":"3a:00:00:00:00:01"}`:                     {0, mac}, // by flannels that did not publish the VNI
		`{"VtepMAC":"3A:00:00:00:00:01","VNI":4096}`:          {4096, mac},
		`{"vni":1,"vtepmac":"3a-00-00-00-00-01"}`:             {1, mac}, // as flannel on Windows writes it
		`{"VNI":1,"VtepMAC":"3a:00:00:00:00:01","New":[1,2]}`: {1, mac},
		"\n{ \"VtepMAC\" : \"3a:00:00:00:00:01\" }\n":         {0, mac},
	} {
		if got, err := parseData(text); got != want || err != nil {
			t.Errorf("%s is read as %v, %v", text, got, err)
		}
	}
}

func TestParseDataRefuses(t *testing.T) {
	for _, text := range hostileData {
		got, err := parseData(text)
		if !errors.Is(err, backend.ErrBackendData) || got != (data{}) {
			t.Errorf("%.100s is read as %v, %v", text, got, err)
		} else if len(err.Error()) > 300 {
			t.Errorf("the error about %.100s has %d bytes", text, len(err.Error()))
		}
	}
}

// hostileData is not valid for any host.
var hostileData = []string{
	``, ` `, `null`, `true`, `1`, `"3a:00:00:00:00:01"`, `[]`, `{}`, `{`, "\x00", "\xff\xfe",
	`{"VNI":1}`,
	`{"VNI":1,"VtepMAC":""}`,
	`{"VNI":1,"VtepMAC":null}`,
	`{"VNI":1,"VtepMAC":1}`,
	`{"VNI":1,"VtepMAC":{"a":1}}`,
	`{"VNI":1,"VtepMAC":"no"}`,
	`{"VNI":1,"VtepMAC":"3a:00:00:00:00"}`,
	`{"VNI":1,"VtepMAC":"3a:00:00:00:00:01:02:03"}`,
	`{"VNI":1,"VtepMAC":"3a:00:00:00:00:01 "}`,
	`{"VNI":1,"VtepMAC":"00:00:00:00:00:00"}`, // the entry for unknown addresses
	`{"VNI":1,"VtepMAC":"ff:ff:ff:ff:ff:ff"}`,
	`{"VNI":1,"VtepMAC":"01:00:5e:00:00:01"}`,
	`{"VNI":1,"VtepMAC":"33:33:00:00:00:01"}`,
	`{"VNI":"1","VtepMAC":"3a:00:00:00:00:01"}`,
	`{"VNI":-1,"VtepMAC":"3a:00:00:00:00:01"}`,
	`{"VNI":1.5,"VtepMAC":"3a:00:00:00:00:01"}`,
	`{"VNI":4294967297,"VtepMAC":"3a:00:00:00:00:01"}`,
	`{"VNI":` + strings.Repeat("9", 10000) + `,"VtepMAC":"3a:00:00:00:00:01"}`,
	`{"VNI":1,"VtepMAC":"` + strings.Repeat("z", 10000) + `"}`,
	strings.Repeat("[", 10000),
}

// TestDeriveMAC pins MACs that must never change. Otherwise every node of every
// cluster would get another MAC with a release.
func TestDeriveMAC(t *testing.T) {
	for id, want := range map[string]subnet.Pair[string]{
		"machine-1":                        {"a6:ff:cc:4e:45:bc", "1a:0c:89:44:c4:e7"},
		"machine-2":                        {"ce:d2:06:88:48:d9", "62:4c:f6:c5:72:3a"},
		"3f2a8c1e5b6d4f0798a1b2c3d4e5f607": {"5a:4c:69:fd:59:69", "fe:fd:b9:f5:3e:12"},
	} {
		for _, f := range subnet.Families {
			if got := deriveMAC(id, f).String(); got != want[f] {
				t.Errorf("%s of %s has %s, want %s", f, id, got, want[f])
			}
		}
	}
}

// TestDeriveMACs checks that a derived MAC is unicast, locally administered, and no
// other host's.
func TestDeriveMACs(t *testing.T) {
	seen := map[netstate.MAC]bool{}
	for i := range 20000 {
		for _, f := range subnet.Families {
			mac := deriveMAC(string(rune('a'+i%26))+strings.Repeat("x", i/26), f)
			if mac[0]&3 != 2 || seen[mac] {
				t.Fatalf("%s is derived, as number %d", mac, i)
			}
			seen[mac] = true
		}
	}
}

func FuzzBackendData(f *testing.F) {
	for _, text := range slices.Concat(hostileData, []string{
		`{"VNI":1,"VtepMAC":"3a:00:00:00:00:01"}`,
		`{"vni":1,"VTEPMAC":"3a-00-00-00-00-01","VtepMAC":"3a00.0000.0002"}`,
		`{"VtepMAC":"3a:00:00:00:00:01"}`,
		`{"VNI":01,"VtepMAC":"3a:00:00:00:00:01"}`,
	}) {
		f.Add(text)
	}
	device := netstate.Link{MAC: netstate.MAC{2, 1}, VXLAN: netstate.VXLAN{VNI: 1}}
	f.Fuzz(func(t *testing.T, text string) {
		if fast, ok := asWritten(text); ok {
			if slow, err := parseJSON(text); slow != fast || err != nil {
				t.Fatalf("%q is read as %v, and by encoding/json as %v, %v", text, fast, slow, err)
			}
		}
		d, err := parseData(text)
		if err != nil {
			if !errors.Is(err, backend.ErrBackendData) || len(err.Error()) > 500 || d != (data{}) {
				t.Fatalf("%q gives %v and error %v", text, d, err)
			}
			return
		}
		if d.mac.IsZero() || d.mac[0]&1 != 0 {
			t.Fatalf("%q gives %s, which is not a unicast address", text, d.mac)
		}
		if again, err := parseData(formatData(d.vni, d.mac)); again != d || err != nil {
			t.Fatalf("%v is written as %s and read as %v, %v", d, formatData(d.vni, d.mac), again, err)
		}
		if err := d.fits(device); err == nil && (d.mac == device.MAC || d.vni > 1) {
			t.Fatalf("%v fits %s", d, device)
		} else if err != nil && !errors.Is(err, backend.ErrBackendData) {
			t.Fatalf("%v: %v", d, err)
		}
	})
}
