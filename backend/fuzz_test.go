package backend_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// hostileValues are values of leases that attack something.
var hostileValues = []string{
	`{}`, `null`, `[]`, `x`, ``,
	`{"PublicIP":"198.18.0.9","BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"3a:00:00:00:00:01"}}`,
	`{"PublicIP":"198.18.0.9","PublicIPv6":"fd00:18::9","BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"3a:00:00:00:00:01"},"BackendV6Data":{"VNI":1,"VtepMAC":"3a:00:00:00:00:02"},"Tulle":{"NodeID":"x","MTU":1}}`,
	`{"PublicIP":"198.18.0.9","BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"a6:ff:cc:4e:45:bc"}}`,         // this node's own MAC
	`{"PublicIP":"198.18.0.9","BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"ce:d2:06:88:48:d9"}}`,         // another's
	`{"PublicIP":"198.18.0.9","BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"00:00:00:00:00:00"}}`,         // broadcast
	`{"PublicIP":"198.18.0.9","BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"ff:ff:ff:ff:ff:ff"}}`,         // multicast
	`{"PublicIP":"198.18.0.9","BackendType":"vxlan","BackendData":"{\"VNI\":1,\"VtepMAC\":\"3a:00:00:00:00:01\"}"}`, // JSON in JSON
	`{"PublicIP":"198.18.0.9","PublicIPv6":"fd00:18::9","BackendType":"wireguard","BackendData":{"PublicKey":"AQIDAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","Port":51820},"BackendV6Data":{"PublicKey":"AQIDAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","Port":51821}}`,
	`{"PublicIP":"198.18.0.9","BackendType":"wireguard","BackendData":{"PublicKey":"96cmbfi0IHk9UbklYZVdsoeSzgBXBZPUfUTZVBibNoU=","Port":51820}}`, // this node's own key
	`{"PublicIP":"198.18.0.9","BackendType":"wireguard","BackendData":{"PublicKey":"2TSgqag6woaBpWk3o1B+pHHnp6kqXPhJHaG8WI5J/T0=","Port":0}}`,     // another's
	`{"PublicIP":"198.18.0.9","BackendType":"wireguard","BackendData":{"PublicKey":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","Port":1}}`,     // none
	`{"PublicIP":"198.18.0.9","PublicIPv6":"fd00:18::9","BackendType":"udp","BackendData":null}`,
	`{"PublicIP":"198.18.0.9","PublicIPv6":"fd00:18::9","BackendType":"extension","BackendData":"$(reboot) \u0000 ; ` + "`reboot`" + ` \n\" ' || reboot"}`,
	`{"PublicIP":"198.18.0.9","BackendType":"extension","BackendData":["$(reboot)"]}`,
	`{"PublicIP":"198.18.0.9","BackendType":"extension","BackendData":"` + strings.Repeat("x", 1<<14) + `"}`,
	`{"PublicIP":"198.18.0.1","BackendType":"ipip"}`,                                                                   // this node
	`{"PublicIP":"198.18.0.2","BackendType":"ipip"}`,                                                                   // another
	`{"PublicIP":"198.18.0.255","BackendType":"ipip"}`,                                                                 // broadcast
	`{"PublicIP":"198.18.0.254","BackendType":"host-gw","Tulle":{"MTU":65535}}`,                                        // their router
	`{"PublicIP":"10.5.1.2","BackendType":"host-gw"}`,                                                                  // this node's own container
	`{"PublicIP":"172.17.0.2","BackendType":"host-gw"}`,                                                                // a container on a bridge of its own
	`{"PublicIP":"127.0.0.1","PublicIPv6":"::1","BackendType":"host-gw"}`,                                              // itself
	`{"PublicIP":"224.0.0.1","PublicIPv6":"ff02::1","BackendType":"ipip"}`,                                             // many
	`{"PublicIP":"169.254.169.254","PublicIPv6":"fe80::1","BackendType":"host-gw"}`,                                    // the cloud's metadata
	`{"PublicIP":"0.0.0.0","PublicIPv6":"::","BackendType":"ipip"}`,                                                    // no host's
	`{"PublicIP":"::ffff:198.18.0.2","PublicIPv6":"198.18.0.2","BackendType":"ipip"}`,                                  // of the wrong family
	`{"PublicIP":"255.255.255.255","PublicIPv6":"fe80::1%eth0","BackendType":"ipip"}`,                                  //
	`{"PublicIP":"198.18.0.9","BackendType":"vxlan","BackendData":` + strings.Repeat("[", 5000) + `}`,                  //
	`{"PublicIP":"198.18.0.9","BackendType":"vxlan","BackendData":{"VtepMAC":"` + strings.Repeat("3a:", 3000) + `"}}`,  //
	`{"PublicIP":"198.18.0.9","BackendType":"vxlan","BackendData":{"VNI":` + strings.Repeat("9", 9000) + `}}`,          //
	`{"PublicIP":"198.18.0.9","BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"3a:00:00:00:00:01","VNI":null}}`, //
}

var hostileKeys = []string{
	"10.5.9.0-24", "10.5.9.0-24&fd00:5:0:9::-64", "fd00:5:0:9::-64", // good ones
	"10.5.0.0-16", "10.5.0.0-17", "10.5.128.0-17", "10.5.9.7-32", "10.5.1.0-24", "10.5.1.128-25", "10.4.0.0-14",
	"0.0.0.0-0", "10.0.0.0-8", "198.18.0.0-24", "198.18.0.254-32", "127.0.0.0-8", "fd00:5:0:9::7-128", "fd00::-16",
	"10.5.2.0-24", "10.5.2.0-25", "rubbish", "",
}

// FuzzPeer writes an arbitrary lease beside good ones.
func FuzzPeer(f *testing.F) {
	for i, value := range hostileValues {
		f.Add(hostileKeys[0], []byte(value))
		f.Add(hostileKeys[i%len(hostileKeys)], []byte(value))
	}
	for i, key := range hostileKeys {
		f.Add(key, []byte(hostileValues[5]))
		f.Add(key, []byte(hostileValues[i%len(hostileValues)]))
	}
	all := scenes(f)
	victims := make([][]subnet.Lease, len(all))
	for i, s := range all {
		victims[i] = s.peers(f, 4, rand.New(rand.NewPCG(5, 6)))
	}
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		hostile, err := subnet.ParseLease(key, value)
		if err != nil {
			return // no store passes it on
		}
		hostile.Created, hostile.Routed = 1000, subnet.Pair[bool]{true, true}
		for i, s := range all {
			// Test the backend alone, whatever the table would have rejected.
			hostile.BackendType = s.cfg.Backend.Type
			objects, err := s.backend.Peer(s.own, hostile, backend.PlainMetrics)
			s.checkPeer(t, hostile, objects, err)
			s.checkVictims(t, hostile, victims[i])
			if t.Failed() {
				t.Fatalf("%s: it has %v, %v", s.name, objects, err)
			}
		}
	})
}

// checkVictims checks that the objects of an accepted lease belong to no other lease,
// and to no host. Only a MAC can be another's (see contested).
func (s scene) checkVictims(t *testing.T, hostile subnet.Lease, victims []subnet.Lease) {
	t.Helper()
	leases := append(slices.Clone(victims), hostile, s.own)
	held := map[netstate.Key]netstate.Object{}
	for _, o := range s.backend.Host(s.own) {
		held[o.Key()] = o
	}
	for _, p := range subnet.NewTable(s.cfg, s.own).Apply(subnet.Update{Complete: true, Leases: leases}).Set {
		objects, err := s.backend.Peer(s.own, *p.Lease, backend.PlainMetrics)
		s.checkPeer(t, *p.Lease, objects, err)
		for _, o := range objects {
			if other, taken := held[o.Key()]; taken && !contested(other, o) {
				t.Errorf("%s of %s is %s of another", o, p.Key, other)
			}
			held[o.Key()] = o
		}
	}
}

// contested reports whether two peers need one key, which the pure part cannot
// prevent. Two nodes with one MAC share its forwarding entry, and the earlier one
// gets it (see reconcile.Desired).
func contested(a, b netstate.Object) bool {
	_, is := a.(netstate.FDB)
	_, too := b.(netstate.FDB)
	_, isPeer := a.(netstate.WGPeer)
	_, peerToo := b.(netstate.WGPeer)
	return is && too || isPeer && peerToo
}

// TestHostileLeases applies the seeds of FuzzPeer: none affects a lease of a good
// peer, or anything of the host's.
func TestHostileLeases(t *testing.T) {
	var all []subnet.Lease
	for _, key := range hostileKeys {
		for _, value := range hostileValues {
			if hostile, err := subnet.ParseLease(key, []byte(value)); err == nil {
				all = append(all, hostile)
			}
		}
	}
	for _, s := range scenes(t) {
		victims := s.peers(t, 4, rand.New(rand.NewPCG(5, 6)))
		for _, hostile := range all {
			hostile.BackendType = s.cfg.Backend.Type
			objects, err := s.backend.Peer(s.own, hostile, backend.PlainMetrics)
			s.checkPeer(t, hostile, objects, err)
			hostile.Created = 1000
			s.checkVictims(t, hostile, victims)
		}
		if t.Failed() {
			t.Fatal(s.name)
		}
	}
}

// FuzzBackendConfig writes an arbitrary Backend.
func FuzzBackendConfig(f *testing.F) {
	for _, c := range contenders {
		for _, text := range c.configs {
			f.Add(text)
		}
		for _, keys := range []string{
			`"VNI": -1`, `"VNI": 16777216`, `"VNI": 1e400`, `"VNI": "x"`, `"VNI": 0`, `"Port": 65536`, `"Port": {}`, `"MTU": 1`, `"MTU": -9223372036854775809`,
			`"MTU": 65535`, `"GBP": 1`, `"Learning": "x"`, `"DirectRouting": []`, `"directrouting": null`, `"Offload": "off"`, `"offload": "no"`,
			`"SubnetAddCommand": " "`, `"PreStartupCommand": "a\u0000b"`, `"CommandTimeout": 0`, `"CommandTimeout": 601`, `"SubnetRemoveCommand": 7`, `"VNI": ` + strings.Repeat("9", 5000),
		} {
			f.Add(fmt.Sprintf(`{"Type": %q, %s}`, c.folder, keys))
		}
	}
	f.Add(`{"type": "HOST-GW"}`)
	f.Add(`null`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, text string) {
		for families, key := range map[string]string{v4: "10.5.1.0-24", v6: "fd00:5:0:1::-64", dual: "10.5.1.0-24&fd00:5:0:1::-64"} {
			cfg, err := subnet.ParseConfig([]byte(`{` + families + `, "Backend": ` + text + `}`))
			if err != nil {
				continue // for the subnet package's own fuzzing
			}
			for _, c := range contenders {
				checkConfig(t, cfg, c.factory, key)
			}
		}
	})
}

// checkConfig checks that a config is rejected by its key, or makes a backend that
// works.
func checkConfig(t *testing.T, cfg subnet.Config, factory backend.Factory, key string) {
	t.Helper()
	b, err := factory(cfg, plainHost())
	if err != nil {
		var refusal *subnet.ConfigError
		if !errors.As(err, &refusal) || !strings.HasPrefix(refusal.Key, "Backend.") || refusal.Why == "" || refusal.Fix == "" || len(err.Error()) > 500 {
			t.Fatalf("%s is refused with %v", cfg.Backend.Raw, err)
		}
		return
	}
	own := lease(t, key)
	own.Attrs = b.Publish()
	if err := own.Validate(); err != nil {
		t.Fatalf("%s publishes %+v: %v", cfg.Backend.Raw, own.Attrs, err)
	}
	for f, data := range own.BackendData {
		var compact bytes.Buffer
		if data == "" {
			continue
		}
		if err := json.Compact(&compact, []byte(data)); err != nil || compact.String() != data {
			t.Fatalf("its %s data is %s: %v", subnet.Family(f), data, err)
		}
	}
	for _, o := range b.Host(own) {
		if l, ok := o.(netstate.Link); ok && (l.MTU < b.MTU() || b.MTU() < backend.MinimumMTU[0] || l.MTU > 1500 || l.Kind == "vxlan" && (l.VXLAN.Port == 0 || l.VXLAN.VNI >= 1<<24) || len(l.Name) > 15) {
			t.Fatalf("%s makes %s", cfg.Backend.Raw, l)
		}
	}
}
