//go:build kube

package kubernetes

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/pkg/test/kubetest"
	"github.com/tulle-net/tulle/subnet"
)

// TestManifestMatchesChart compares the plain manifests with what the chart renders.
func TestManifestMatchesChart(t *testing.T) {
	for _, name := range []string{"tulle", "tulle-controller"} {
		want, err := exec.Command("./manifest.sh", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s.yaml is not what the chart gives any more: make manifests", name)
		}
	}
}

func TestChartLintsWithEveryValue(t *testing.T) {
	if _, err := tool("helm", "lint", "--strict", "../chart/tulle"); err != nil {
		t.Error(err)
	}
}

// all sets every value to one that is not the default.
const all = `
image: {repository: registry.example/a/tulle, digest: "sha256:` + digest + `", pullPolicy: Always, pullSecrets: [mine]}
network: {ipv4: 10.244.0.0/16, ipv6: "fd00:10:244::/56", backend: {Type: vxlan, DirectRouting: true}, config: {EnableNFTables: true}}
allowExtension: true
ipMasq: ipv4
annotationPrefix: net.example.org/blue
setNodeNetworkUnavailable: false
extraArgs: [--iface-from-node-ip, --no-masq-cidrs=192.0.2.0/24]
extraEnv: [{name: GOGC, value: "50"}]
cni: {confDir: /etc/cni/other, confFile: 05-tulle.conflist, binDir: /usr/libexec/cni}
apiServer: {host: 192.0.2.1}
health: {ip: "::", port: 9479}
podMonitor: {enabled: true, labels: {release: prometheus}, interval: 1m, peerMetrics: true}
prometheusRule: {enabled: true, labels: {release: prometheus}}
nodeSelector: {cni-daemon: tulle}
tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists}]
updateStrategy: {type: OnDelete}
resources: {}
seLinuxOptions: {type: spc_t}
podAnnotations: {example.org/a: b}
podLabels: {example.org/c: d}
` + controllerValues + `  nodePools: {pools: [{name: default, ipv4: {ranges: [10.246.0.0/16], blockBits: 24}}]}
  cloudProvider: aws
  clusterName: prod
  cloudConfig: "[Global]"
  controllers: [nodeipam, cloud-node]
  serviceAccountAnnotations: {example.org/role: mine}
`

const digest = "0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"

// TestServerAcceptsManifests applies the plain manifests, the kustomization and the chart
// with every value changed to a real server, first as a dry run.
func TestServerAcceptsManifests(t *testing.T) {
	l := newLab(t, kubetest.Options{})
	manifest := plain(t)
	l.apply(manifest)
	revisions := func() (all []string) {
		for _, o := range manifest {
			var v struct {
				Metadata struct{ ResourceVersion string }
			}
			l.Do(http.MethodGet, o.path(t), nil, &v)
			all = append(all, o.Kind+" "+v.Metadata.ResourceVersion)
		}
		return all
	}
	before := revisions()
	kustomized, err := tool("kustomize", "build", "..")
	if err != nil {
		t.Fatal(err)
	}
	l.apply(objects(t, kustomized))
	if after := revisions(); !slices.Equal(before, after) {
		t.Errorf("the kustomization is another thing than the manifest: %q, then %q", before, after)
	}
	ofController, _ := controllerManifest(t)
	l.apply(ofController)

	for plural, kind := range map[string]string{"podmonitors": "PodMonitor", "prometheusrules": "PrometheusRule"} {
		l.define(plural, kind)
	}
	rendered, err := chart("other", "elsewhere", "namespace: {create: true}"+all)
	if err != nil {
		t.Fatal(err)
	}
	l.apply(objects(t, rendered))
	for _, check := range []struct{ path, want string }{
		{"/apis/apps/v1/namespaces/elsewhere/daemonsets/tulled", `"image":"registry.example/a/tulle@sha256:` + digest + `"`},
		{"/apis/apps/v1/namespaces/elsewhere/daemonsets/tulled", `"host":"::1"`},
		{"/apis/apps/v1/namespaces/elsewhere/daemonsets/tulled", `"seLinuxOptions":{"type":"spc_t"}`},
		{"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/other-own-node", `'net.example.org/blue-' + n`},
		{"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/other-own-node", "system:serviceaccount:elsewhere:tulled"},
		{"/apis/monitoring.coreos.com/v1/namespaces/elsewhere/prometheusrules/tulle", "{{ $labels.instance }}"},
		{"/apis/monitoring.coreos.com/v1/namespaces/elsewhere/prometheusrules/tulle-controller", "{{ $labels.pool }}"},
		{"/apis/apps/v1/namespaces/elsewhere/deployments/tulle-controller", `"host":"::1"`},
		{"/apis/apps/v1/namespaces/elsewhere/deployments/tulle-controller", `{"name":"config","readOnly":true,"mountPath":"/etc/tulle"}`},
		{"/api/v1/namespaces/elsewhere/configmaps/tulle-controller", "10.246.0.0/16"},
		{"/apis/apps/v1/namespaces/elsewhere/deployments/tulle-controller", `{"name":"KUBERNETES_SERVICE_HOST","value":"192.0.2.1"}`},
		{"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/other-podcidrs", "system:serviceaccount:elsewhere:tulle-controller"},
		{"/apis/monitoring.coreos.com/v1/namespaces/elsewhere/podmonitors/tulle-controller", `"replacement":"tulle-controller"`},
	} {
		if code, said := l.call(adminToken, http.MethodGet, check.path, asJSON, nil); code != http.StatusOK || !strings.Contains(said, check.want) {
			t.Errorf("%s: %d %s; want %s", check.path, code, said, check.want)
		}
	}
}

// define registers a kind of the prometheus-operator with the server, with only the
// fields that our objects have.
func (l lab) define(plural, kind string) {
	l.t.Helper()
	text := map[string]any{"type": "string"}
	texts := map[string]any{"type": "object", "additionalProperties": text}
	list := func(of map[string]any) map[string]any { return map[string]any{"type": "array", "items": of} }
	fields := func(all map[string]any) map[string]any { return map[string]any{"type": "object", "properties": all} }
	spec := fields(map[string]any{
		"selector": fields(map[string]any{"matchLabels": texts}),
		"podMetricsEndpoints": list(fields(map[string]any{"port": text, "interval": text, "relabelings": list(fields(map[string]any{
			"targetLabel": text, "replacement": text, "sourceLabels": list(text),
		}))})),
	})
	if kind == "PrometheusRule" {
		spec = fields(map[string]any{"groups": list(fields(map[string]any{"name": text, "rules": list(fields(map[string]any{
			"alert": text, "expr": map[string]any{"x-kubernetes-int-or-string": true}, "for": text, "labels": texts, "annotations": texts,
		}))}))})
	}
	l.Do(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", map[string]any{
		"metadata": map[string]any{"name": plural + ".monitoring.coreos.com"},
		"spec": map[string]any{
			"group": "monitoring.coreos.com", "scope": "Namespaced",
			"names": map[string]any{"plural": plural, "singular": strings.ToLower(kind), "kind": kind},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": fields(map[string]any{"spec": spec})},
			}},
		},
	}, nil)
	kerneltest.Eventually(l.t, patience, func() error {
		if code, said := l.call(adminToken, http.MethodGet, "/apis/monitoring.coreos.com/v1/"+plural, asJSON, nil); code != http.StatusOK {
			return fmt.Errorf("%d %s", code, said)
		}
		return nil
	})
}

// daemonSet is the part of it that the tests read.
type daemonSet struct {
	Spec struct{ Template struct{ Spec podSpec } }
}

type podSpec struct {
	HostNetwork, HostPID, HostIPC bool
	SecurityContext               struct {
		RunAsNonRoot                   bool
		RunAsUser, RunAsGroup, FSGroup int
		SeccompProfile                 struct{ Type string }
	}
	InitContainers, Containers []container
	Volumes                    []volume
}

type volume struct {
	Name      string
	HostPath  *struct{ Path, Type string }
	ConfigMap *struct{ Name string }
	Projected *struct {
		DefaultMode int
		Sources     []struct {
			Secret struct {
				Name  string
				Items []struct{ Key, Path string }
			}
		}
	}
}

type container struct {
	Name            string
	Args            []string
	Env             []struct{ Name, Value string }
	SecurityContext struct {
		AllowPrivilegeEscalation, Privileged, ReadOnlyRootFilesystem bool
		Capabilities                                                 struct{ Add, Drop []string }
	}
	VolumeMounts []mount
}

type mount struct {
	Name, MountPath string
	ReadOnly        bool
}

// TestDaemonSet checks that the daemon understands its arguments, and that its
// containers have no more of the host than the page says.
func TestDaemonSet(t *testing.T) {
	changed, err := chart("tulle", namespace, all)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../Documentation/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	for what, manifest := range map[string][]object{"plain": plain(t), "changed": objects(t, changed)} {
		spec := find[daemonSet](t, manifest, "DaemonSet").Spec.Template.Spec
		for i, c := range []container{spec.InitContainers[0], spec.Containers[0]} {
			o, err := options.Parse(c.Args, []string{"NODE_NAME=a"}, []string{"vxlan"})
			if err != nil || len(o.Warnings) > 0 {
				t.Errorf("%s: %s does not understand its flags: %v %q", what, c.Name, err, o.Warnings)
			}
			s := c.SecurityContext
			if s.AllowPrivilegeEscalation || s.Privileged || !s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) {
				t.Errorf("%s: %s may do too much: %+v", what, c.Name, s)
			}
			want := [][]string{nil, {"NET_ADMIN", "NET_RAW"}}[i]
			if !slices.Equal(s.Capabilities.Add, want) {
				t.Errorf("%s: %s has the capabilities %q, want %q", what, c.Name, s.Capabilities.Add, want)
			}
		}
		if spec.HostPID || spec.HostIPC || !spec.HostNetwork {
			t.Errorf("%s: the pod has the host's processes or IPC, or not its network", what)
		}
		if what == "changed" {
			continue
		}
		for _, v := range spec.Volumes {
			if v.HostPath != nil && !bytes.Contains(page, []byte("| `"+v.HostPath.Path+"` |")) {
				t.Errorf("the page has no line for %s", v.HostPath.Path)
			}
		}
	}
}

// TestPagePatchesApply applies the page's patches to our DaemonSet and to flannel's,
// on a real server.
func TestPagePatchesApply(t *testing.T) {
	l := newLab(t, kubetest.Options{})
	l.apply(plain(t))
	l.apply(objects(t, kubeFlannel))
	page, err := os.ReadFile("../../Documentation/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	patches := regexp.MustCompile(`kubectl -n (\S+) patch daemonset (\S+) --type=json -p '([^']*)'`).FindAllSubmatch(page, -1)
	for _, m := range patches {
		path := fmt.Sprintf("/apis/apps/v1/namespaces/%s/daemonsets/%s?fieldValidation=Strict", m[1], m[2])
		if code, said := l.call(adminToken, http.MethodPatch, path, "application/json-patch+json", m[3]); code != http.StatusOK {
			t.Errorf("%s: %d %s", m[0], code, said)
		}
	}
	if len(patches) != 2 {
		t.Errorf("there are %d patches", len(patches))
	}
}

// kubeFlannel is the part of flannel's manifest that the page's patch changes.
const kubeFlannel = `
apiVersion: v1
kind: Namespace
metadata: {name: kube-flannel}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: kube-flannel-ds, namespace: kube-flannel}
spec:
  selector: {matchLabels: {app: flannel}}
  template:
    metadata: {labels: {app: flannel}}
    spec:
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
            - matchExpressions:
              - {key: kubernetes.io/os, operator: In, values: [linux]}
      containers:
      - {name: kube-flannel, image: registry.example/flannel}
`

// TestConfig checks that the network's config from the chart is valid.
func TestConfig(t *testing.T) {
	for values, want := range map[string]string{
		`{}`:                                  "10.244.0.0/16",
		`network: {ipv6: "fd00:10:244::/56"}`: "10.244.0.0/16 fd00:10:244::/56",
		`network: {ipv4: "", ipv6: "fd00:10:244::/56"}`:                "fd00:10:244::/56",
		`network: {backend: {Type: host-gw}, config: {SubnetLen: 26}}`: "10.244.0.0/16",
		`network: {config: {Network: 10.5.0.0/16}}`:                    "10.5.0.0/16",
	} {
		rendered, err := chart("tulle", namespace, values)
		if err != nil {
			t.Fatal(err)
		}
		text := find[struct{ Data map[string]string }](t, objects(t, rendered), "ConfigMap").Data["net-conf.json"]
		cfg, err := subnet.ParseConfig([]byte(text))
		if err != nil {
			t.Errorf("%s: %v: %s", values, err, text)
		}
		var got []string
		for _, p := range cfg.Pools {
			if p.IsValid() {
				got = append(got, p.Network.String())
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %s has %q, want %s", values, text, got, want)
		}
	}
}

// TestEveryBackend checks that the chart has all backends of the daemon, and gives the
// daemon what each needs and no more.
func TestEveryBackend(t *testing.T) {
	files, err := filepath.Glob("../../backend/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := regexp.MustCompile(`(?m)^const Type = "(.*)"$`).FindSubmatch(text)
		if name == nil {
			continue
		}
		seen++
		backend := string(name[1])
		extension, udp := backend == "extension", backend == "udp"
		rendered, err := chart("tulle", namespace, fmt.Sprintf("network: {backend: {Type: %s}}\nallowExtension: %t", backend, extension))
		if err != nil {
			t.Errorf("%s: %v", backend, err)
			continue
		}
		spec := find[daemonSet](t, objects(t, rendered), "DaemonSet").Spec.Template.Spec
		c := spec.Containers[0]
		if o, err := options.Parse(c.Args, []string{"NODE_NAME=a"}, []string{"vxlan", backend}); err != nil || o.AllowExtension != extension || o.StateDir == "" {
			t.Errorf("%s: it gets the arguments %q: %v", backend, c.Args, err)
		}
		mounted := slices.Contains(c.VolumeMounts, mount{Name: "tun", MountPath: "/dev/net/tun"})
		volume := slices.ContainsFunc(spec.Volumes, func(v volume) bool {
			return v.Name == "tun" && v.HostPath != nil && v.HostPath.Path == "/dev/net/tun" && v.HostPath.Type == "CharDevice"
		})
		if mounted != udp || volume != udp {
			t.Errorf("%s: it has the mounts %+v of %+v", backend, c.VolumeMounts, spec.Volumes)
		}
		if !slices.ContainsFunc(c.VolumeMounts, func(m mount) bool { return m.MountPath == "/var/lib/tulle" && !m.ReadOnly }) {
			t.Errorf("%s: it cannot keep its state", backend)
		}
	}
	if seen < 8 {
		t.Errorf("there are %d backends", seen)
	}
}

// TestChartRefusesBadValues checks that the schema rejects values that make no sense.
func TestChartRefusesBadValues(t *testing.T) {
	for values, want := range map[string]string{
		`imagee: {}`:                                                 "imagee",
		`image: {tag: 1.2}`:                                          "tag",
		`image: {digest: latest}`:                                    "digest",
		`network: {ipv4: "10.244.0.0"}`:                              "ipv4",
		`network: {ipv4: ""}`:                                        "network.ipv4 and network.ipv6 are both empty",
		`network: {backend: {Type: pigeon}}`:                         "Type",
		`network: {backend: {Type: extension}}`:                      "set allowExtension to true",
		`network: {config: {Backend: {Type: Extension}}}`:            "set allowExtension to true",
		`ipMasq: maybe`:                                              "ipMasq",
		`annotationPrefix: "example.org/x' + '"`:                     "annotationPrefix",
		`cni: {confFile: ../x.conflist}`:                             "confFile",
		`cni: {binDir: opt}`:                                         "binDir",
		`health: {port: 80}`:                                         "port", // for which it has no right
		`podMonitor: {enabled: true}`:                                "health.ip",
		`controller: {mode: maybe}`:                                  "mode",
		`controller: {replicas: 0}`:                                  "replicas",
		`controller: {clusterCIDR: all}`:                             "clusterCIDR",
		`controller: {allocatorType: Mine}`:                          "allocatorType",
		`controller: {cloudProvider: moon}`:                          "cloudProvider",
		`controller: {controllers: [cloud]}`:                         "controllers",
		`controller: {enabled: true, cloudProvider: aws}`:            "controller.clusterName is empty",
		`controller: {enabled: true, clusterName: prod}`:             "no effect without controller.cloudProvider",
		`controller: {enabled: true, controllers: [route]}`:          "route has no work without controller.cloudProvider",
		`controller: {enabled: true, controllers: ["*", -nodeipam]}`: "turns every controller off",
		`controller: {enabled: true, cloudProvider: aws, clusterName: prod, allocatorType: CloudAllocator}`:                                 "is Google's",
		`controller: {cloudConfigSecret: My_Secret}`:                                                                                        "cloudConfigSecret",
		`controller: {enabled: true, cloudConfigSecret: mine}`:                                                                              "no effect without controller.cloudProvider",
		`controller: {enabled: true, cloudProvider: aws, cloudConfig: x, cloudConfigSecret: mine}`:                                          "both set",
		`controller: {enabled: true, cloudProvider: azure}`:                                                                                 "needs the text of azure.json",
		`controller: {enabled: true, cloudProvider: azure, cloudConfigSecret: mine, clusterName: prod}`:                                     "controller.clusterName has no effect",
		`controller: {enabled: true, cloudProvider: azure, cloudConfigSecret: mine, controllers: ["*", service]}`:                           "service does not run with controller.cloudProvider=azure",
		`controller: {enabled: true, cloudProvider: azure, cloudConfigSecret: mine, allocatorType: IPAMFromCloud}`:                          "is Google's",
		`controller: {enabled: true, cloudProvider: azure, cloudConfig: '{"aadClientSecret": "abc"}'}`:                                      "aadClientSecret would be in a ConfigMap",
		`controller: {enabled: true, cloudProvider: azure, cloudConfig: 'AADClientCertPassword: 123'}`:                                      "AADClientCertPassword would be in a ConfigMap",
		`controller: {enabled: true, cloudProvider: azure, cloudConfig: "{\n\t\"aadClientSecret\": \"abc\"\n}"}`:                            "aadClientSecret would be in a ConfigMap", // JSON, and no YAML
		`controller: {enabled: true, cloudProvider: azure, cloudConfig: "{\"aadClientSecret\": \"abc\""}`:                                   "controller.cloudConfig: the text is neither JSON nor YAML",
		`controller: {enabled: true, cloudProvider: gce}`:                                                                                   "controller.clusterName is empty",
		`controller: {enabled: true, cloudProvider: gce, clusterName: Prod}`:                                                                "not the beginning of a route's name",
		`controller: {enabled: true, cloudProvider: gce, clusterName: prod, controllers: [service]}`:                                        "service does not run with controller.cloudProvider=gce",
		`controller: {enabled: true, cloudProvider: gce, clusterName: prod, allocatorType: CloudAllocator, controllers: [nodeipam, route]}`: "Google itself routes alias ranges",
		`controller: {enabled: true, cloudProvider: gce, clusterName: prod, allocatorType: CloudAllocator, controllers: ["*", -nodeipam]}`:  "has no effect, because controller.controllers leaves nodeipam out",
		"controller: {enabled: true}\nhealth: {ip: 0.0.0.0}\npodMonitor: {enabled: true}":                                                   "controller.healthIP",
		`extraArgs: [iface=eth0]`:                      "extraArgs",
		`tolerations: {operator: Exists}`:              "tolerations",
		`admissionPolicy: {enabled: "yes, of course"}`: "admissionPolicy",
	} {
		if _, err := chart("tulle", namespace, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want it refused with %s", values, err, want)
		}
	}
}

// TestPageAndSchemaNameEveryValue compares the values with the page and the schema.
func TestPageAndSchemaNameEveryValue(t *testing.T) {
	var values, schema map[string]any
	for path, into := range map[string]any{"chart/tulle/values.yaml": &values, "chart/tulle/values.schema.json": &schema} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(text, into); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile("../../Documentation/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	known := schema["properties"].(map[string]any)
	for name, value := range values {
		if known[name] == nil {
			t.Errorf("the schema has no %s", name)
		}
		names := []string{name}
		if group, ok := value.(map[string]any); ok && known[name] != nil {
			if fields, ok := known[name].(map[string]any)["properties"].(map[string]any); ok && known[name].(map[string]any)["additionalProperties"] == false {
				names = nil
				for field := range group {
					names = append(names, name+"."+field)
				}
				if len(group) != len(fields) {
					t.Errorf("%s has %d values, and the schema %d", name, len(group), len(fields))
				}
			}
		}
		for _, name := range names {
			if !regexp.MustCompile("(?m)^\\| .*`" + regexp.QuoteMeta(name) + "`.* \\| .* \\| .* \\|$").Match(page) {
				t.Errorf("the page has no line for %s", name)
			}
		}
	}
}
