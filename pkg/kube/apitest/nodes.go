package apitest

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// prefix begins the annotations of a network's Nodes.
const prefix = "flannel.alpha.coreos.com"

// LargeNode returns a Node as large as in a real cluster. It takes part in a network
// and claims its podCIDRs.
func LargeNode(i int) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("node-%d", i), UID: "0cb6a4d6-6d2b-4c0e-9c3c-2b1b6a3f2c11", ResourceVersion: fmt.Sprint(1000 + i),
		CreationTimestamp: metav1.NewTime(time.Unix(1_700_000_000, 0)),
		Labels: map[string]string{
			"kubernetes.io/hostname": fmt.Sprintf("node-%d", i), "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
			"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/instance-type": "m6i.2xlarge",
			"node.kubernetes.io/instance-type": "m6i.2xlarge", "topology.kubernetes.io/region": "eu-west-1", "topology.kubernetes.io/zone": "eu-west-1a",
			"failure-domain.beta.kubernetes.io/region": "eu-west-1", "failure-domain.beta.kubernetes.io/zone": "eu-west-1a", "example.org/pool": "workers",
		},
		Annotations: map[string]string{
			prefix + "/kube-subnet-manager": "true", prefix + "/backend-type": "vxlan", prefix + "/public-ip": fmt.Sprintf("172.16.%d.%d", i>>8, i&255),
			prefix + "/backend-data": fmt.Sprintf(`{"VNI":1,"VtepMAC":"02:00:00:00:%02x:%02x"}`, i>>8, i&255),
			"example.org/other":      "x",
		},
	}}
	n.Spec.PodCIDR = fmt.Sprintf("10.%d.%d.0/24", 64+i>>8, i&255)
	n.Spec.PodCIDRs = []string{n.Spec.PodCIDR, fmt.Sprintf("fd00:5:0:%x::/64", i)}
	n.Spec.ProviderID = fmt.Sprintf("aws:///eu-west-1a/i-%017x", i)
	n.Spec.Taints = []corev1.Taint{{Key: "example.org/dedicated", Value: "workers", Effect: "NoSchedule"}}
	n.Annotations[prefix+"/tulle-subnets"] = strings.Join(n.Spec.PodCIDRs, ",")
	n.Status.Addresses = []corev1.NodeAddress{{Type: "Hostname", Address: n.Name}, {Type: "InternalIP", Address: "172.16.0.1"}, {Type: "ExternalIP", Address: "198.51.100.1"}}
	for j := range 50 {
		digest := strings.Repeat(fmt.Sprintf("%02x", j), 32)
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{
			Names:     []string{"registry.example.org/some/long/path/to/an/image@sha256:" + digest, fmt.Sprintf("registry.example.org/some/long/path/to/an/image:v1.%d.0-with-a-long-tag", j), "docker.example.org/another/name/of/it@sha256:" + digest},
			SizeBytes: 123456789,
		})
	}
	for _, kind := range []corev1.NodeConditionType{"MemoryPressure", "DiskPressure", "PIDPressure", "Ready"} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: "False", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(), Reason: "KubeletHasSufficient", Message: "kubelet has sufficient of it",
		})
	}
	return n
}

// SmallNode returns a Node that is small enough to fuzz.
func SmallNode(i int) *corev1.Node {
	n := LargeNode(i)
	n.Status.Images, n.Status.Conditions = nil, n.Status.Conditions[:1]
	return n
}
