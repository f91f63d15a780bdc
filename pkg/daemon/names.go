package daemon

import (
	"github.com/tulle-net/tulle/pkg/firewall/host"
	"github.com/tulle-net/tulle/pkg/hostif"
	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/subnet"
	"github.com/tulle-net/tulle/subnet/kube"
)

// The names of the rooms' settings in errors and logs: tulled's flags.
var (
	kubeNames = kube.Names{
		Server: options.Name("kube-api-url"), Kubeconfig: options.Name("kubeconfig-file"),
		Prefix: options.Name("kube-annotation-prefix"), ConfigFile: options.Name("net-config-path"),
	}
	uplinkNames = hostif.Names{
		Iface: options.Name("iface"), IfaceRegex: options.Name("iface-regex"), CanReach: options.Name("iface-can-reach"),
		FromNodeIP: options.Name("iface-from-node-ip"),
		PublicIP:   subnet.Pair[string]{options.Name("public-ip"), options.Name("public-ipv6")},
	}
	firewallNames = host.Names{Kind: options.Name("filter"), Unforwarded: options.Name("iptables-forward-rules") + "=false"}
)
