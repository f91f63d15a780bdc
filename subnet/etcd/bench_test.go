package etcd

import (
	"context"
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tulle-net/tulle/pkg/test/etcdtest"
)

// fill writes n leases like those of vxlan nodes.
func fill(t testing.TB, client *clientv3.Client, n int) {
	t.Helper()
	var ops []clientv3.Op
	for i := range n {
		key := fmt.Sprintf("%s/subnets/10.%d.%d.%d-28", prefix, i>>12, i>>4&255, i<<4&255)
		ops = append(ops, clientv3.OpPut(key, fmt.Sprintf(`{"PublicIP":"198.18.%d.%d","PublicIPv6":null,"BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"3a:00:00:00:%02x:%02x"},"Tulle":{"NodeID":"%032x","NodeName":"node-%d","MTU":1450}}`,
			i>>8, i&255, i>>8, i&255, i, i)))
		if len(ops) == 100 || i == n-1 {
			if _, err := client.Txn(context.Background()).Then(ops...).Commit(); err != nil {
				t.Fatal(err)
			}
			ops = ops[:0]
		}
	}
}

// BenchmarkList lists and parses a whole network.
func BenchmarkList(b *testing.B) {
	for _, n := range []int{10_000, 50_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := etcdtest.Start(b, etcdtest.Options{})
			fill(b, c.Client(b), n)
			s, err := Open(Options{Endpoints: c.Endpoints(), Prefix: prefix})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			b.ReportAllocs()
			for b.Loop() {
				l, err := s.list(context.Background())
				if err != nil || len(l.leases) != n {
					b.Fatal(err)
				}
			}
		})
	}
}
