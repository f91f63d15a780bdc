package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/etcdtest"
)

// hosts is a network of hosts in etcd, without Kubernetes, and its instances on AWS.
type hosts struct {
	t         *testing.T
	endpoint  string
	client    *clientv3.Client
	aws       *awstest.Server
	table     string
	instances []awstest.Instance
}

func newHosts(t *testing.T, n int) *hosts {
	endpoint := etcdtest.Start(t, etcdtest.Options{}).Endpoints()[0]
	h := &hosts{t: t, endpoint: endpoint, client: etcdtest.Dial(t, endpoint), aws: awstest.New(t)}
	h.aws.Setenv(t)
	tag := map[string]string{"kubernetes.io/cluster/" + siteName: "owned"}
	h.table = h.aws.AddTable(h.aws.Default().VPC, tag)
	h.put("config", `{"Network": "10.5.0.0/16", "Backend": {"Type": "alloc"}}`)
	for k, i := range h.aws.Launch(awstest.Launch{Count: n, Tags: tag}) {
		h.instances = append(h.instances, i)
		h.put(h.key(k), fmt.Sprintf(`{"PublicIP": %q, "BackendType": "alloc"}`, i.Private))
	}
	return h
}

func (h *hosts) key(k int) string { return fmt.Sprintf("subnets/10.5.%d.0-24", k+1) }

func (h *hosts) put(key, value string) {
	h.t.Helper()
	if _, err := h.client.Put(h.t.Context(), "/coreos.com/network/"+key, value); err != nil {
		h.t.Fatal(err)
	}
}

// start runs the program without Kubernetes.
func (h *hosts) start(more ...string) *running {
	h.t.Helper()
	flags := settingsOf(h.t, append([]string{
		"--etcd-endpoints=" + h.endpoint, "--cloud-provider=aws", "--cluster-name=" + siteName, "--healthz-port=0",
		"--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=1s",
	}, more...)...)
	flags.route.period, flags.route.grace = time.Second, time.Second // less than the flags allow
	p, err := flags.connect()
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{p, h.t, cancel, make(chan struct{})}
	go func() {
		defer close(r.ended)
		defer p.close()
		p.run(ctx)
	}()
	h.t.Cleanup(r.stop)
	return r
}

// await waits until the table has the routes of these hosts, and of no other.
func (h *hosts) await(want ...int) {
	h.t.Helper()
	kerneltest.Eventually(h.t, patience, func() error {
		got := make(map[string]string)
		for _, r := range h.aws.Routes(h.table) {
			if r.Instance != "" {
				got[r.Destination] = r.Target
			}
		}
		for _, k := range want {
			if got[fmt.Sprintf("10.5.%d.0/24", k+1)] != h.instances[k].Interface {
				return fmt.Errorf("host %d has no route: %v", k, got)
			}
		}
		if len(got) != len(want) {
			return fmt.Errorf("the table has %v", got)
		}
		return nil
	})
}

// The leases of etcd are routed as Nodes are. The next leader goes on with the ledger.
func TestRoutesFromEtcdAlone(t *testing.T) {
	h := newHosts(t, 5)
	h.put("subnets/10.5.200.0-24", `{"PublicIP": "192.0.2.9", "BackendType": "vxlan"}`) // needs no route
	first := h.start()
	h.await(0, 1, 2, 3, 4)
	first.await("every Node is routed")
	if first.client != nil {
		t.Error("it speaks to an API server")
	}
	second := h.start()
	second.await("standing by for")
	first.stop()
	second.await("every Node is routed")
	if _, err := h.client.Delete(t.Context(), "/coreos.com/network/"+h.key(2)); err != nil {
		t.Fatal(err)
	}
	h.await(0, 1, 3, 4)
	// A lease that cannot be read keeps its route.
	h.put(h.key(3), "garbage")
	reads := h.aws.Count("DescribeRouteTables")
	kerneltest.Eventually(t, patience, func() error {
		if h.aws.Count("DescribeRouteTables") < reads+3 {
			return errors.New("the tables were not read again")
		}
		return nil
	})
	h.await(0, 1, 3, 4)
	got, err := h.client.Get(t.Context(), "/coreos.com/network/tulle-controller/routes/", clientv3.WithPrefix())
	if err != nil || len(got.Kvs) < 4 || !strings.Contains(string(got.Kvs[0].Value), h.table+" "+h.instances[0].Interface) {
		t.Errorf("the ledger has %v, %v", got, err)
	}
	if text := second.get(t, "/readyz?verbose"); !strings.Contains(text, "leases") || !strings.Contains(text, "passed") {
		t.Error(text)
	}
}

func TestEtcdExcludesKubernetes(t *testing.T) {
	for args, part := range map[string]string{
		"--etcd-endpoints=http://127.0.0.1:1":                                                              "the controllers of a cloud need it",
		"--etcd-endpoints=http://127.0.0.1:1 --kubeconfig=/x --cloud-provider=aws --cluster-name=x":        "conflicts with --etcd-endpoints",
		"--etcd-cafile=/x --cloud-provider=aws --cluster-name=x":                                           "has no effect without --etcd-endpoints",
		"--etcd-endpoints=http://a:b@127.0.0.1:1 --cloud-provider=aws --cluster-name=x":                    "URL with a user or password; set --etcd-username",
		"--etcd-endpoints=http://127.0.0.1:1 --etcd-certfile=/x --cloud-provider=aws --cluster-name=x":     "needs --etcd-keyfile",
		"--etcd-endpoints=http://127.0.0.1:1 --controllers=nodeipam --cloud-provider=aws --cluster-name=x": "--etcd-endpoints: node-ipam-controller needs Kubernetes",
	} {
		var s settings
		given, err := s.program().Read(strings.Fields(args), nil)
		if err == nil {
			err = given.Apply()
		}
		if err == nil {
			err = s.check(given)
		}
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v, want %q", args, err, part)
		}
	}
}

// Nodes of the backend cloud are told which of them are routed, and others are not.
func TestNoticesInEtcd(t *testing.T) {
	h := newHosts(t, 3)
	for _, k := range []int{0, 1} {
		h.put(h.key(k), fmt.Sprintf(`{"PublicIP": %q, "BackendType": "cloud"}`, h.instances[k].Private))
	}
	h.put("routed/10.5.77.0-24", "vpc-0 192.0.2.77 10.5.77.0/24") // of a lease that is gone
	first := h.start()
	vpc := h.aws.Default().VPC
	told := func(want ...int) {
		t.Helper()
		kerneltest.Eventually(t, patience, func() error {
			got, err := h.client.Get(t.Context(), "/coreos.com/network/routed/", clientv3.WithPrefix())
			if err != nil || len(got.Kvs) != len(want) {
				return fmt.Errorf("%v, %v", got, err)
			}
			for i, k := range want {
				key, notice := h.key(k), fmt.Sprintf("%s %s 10.5.%d.0/24", vpc, h.instances[k].Private, k+1)
				if string(got.Kvs[i].Key) != "/coreos.com/network/routed/"+strings.TrimPrefix(key, "subnets/") || string(got.Kvs[i].Value) != notice {
					return fmt.Errorf("%s, want %s of %s", got.Kvs[i], notice, key)
				}
			}
			return nil
		})
	}
	h.await(0, 1, 2)
	told(0, 1)
	first.stop() // what was said stays
	told(0, 1)
	if _, err := h.client.Delete(t.Context(), "/coreos.com/network/"+h.key(0)); err != nil {
		t.Fatal(err)
	}
	h.start().await("every Node is routed")
	told(1)
}

// The page's role in etcd is enough to lead, to keep the ledger and to release.
func TestLeastRightsInEtcd(t *testing.T) {
	h := newHosts(t, 2)
	text, err := os.ReadFile("../../../Documentation/cloud-routes.md")
	if err != nil {
		t.Fatal(err)
	}
	grants := regexp.MustCompile(`etcdctl role grant-permission tulle-controller (read|readwrite) (--prefix )?(\S+)(?: (\S+))?\n`).FindAllStringSubmatch(string(text), -1)
	if len(grants) != 3 {
		t.Fatalf("the page has the grants %q", grants)
	}
	const name, secret = "tulle-controller", "a secret"
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	do(h.client.RoleAdd(ctx, name))
	for _, g := range grants {
		kind, end := clientv3.PermRead, g[4]
		if g[1] == "readwrite" {
			kind = clientv3.PermReadWrite
		}
		if g[2] != "" {
			end = clientv3.GetPrefixRangeEnd(g[3])
		}
		do(h.client.RoleGrantPermission(ctx, name, g[3], end, clientv3.PermissionType(kind)))
	}
	for user, role := range map[string]string{name: name, "root": "root"} {
		do(h.client.UserAdd(ctx, user, secret))
		do(h.client.UserGrantRole(ctx, user, role))
	}
	do(h.client.AuthEnable(ctx))
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	first := h.start("--etcd-username="+name, "--etcd-password-file="+file)
	first.await("every Node is routed")
	h.await(0, 1)
	second := h.start("--etcd-username="+name, "--etcd-password-file="+file)
	second.await("standing by for")
	first.stop()
	second.await("every Node is routed")
	if s := second.elector.Status(); !s.Leading || s.Failing != nil {
		t.Errorf("%+v", s)
	}
}
