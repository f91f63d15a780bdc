#compdef tulled
# zsh completion for tulled
_tulled() {
	local curcontext=$curcontext state line ret=1
	typeset -A opt_args
	local -a commands=(
		'check-config:say what a network'\''s config means, or what is wrong with it'
		'leases:list the leases in the store, and what is wrong with them'
		'status:tell how the tulled of this host is; 0 if it is ready, 1 if not'
		'peers:list the other nodes as it sees them'
		'explain:say what it makes of an address, and what the kernel does'
		'bugreport:write all that helps to find a fault into one archive'
		'cleanup:remove from this host all that tulled made'
		'install-cni:put CNI plugins into /opt/cni/bin, or DIR, where there are none'
		'version:print the version'
		'man:print the manual page'
		'completion:print completions for bash, zsh or fish'
	)
	_arguments -C \
		'--etcd-endpoints=[URLs of etcd, comma-separated]:URLS: ' \
		'--etcd-prefix=[prefix of all keys]:KEY: ' \
		'--etcd-cafile=[CA certificates that etcd'\''s must be signed by]:FILE:_files' \
		'--etcd-certfile=[certificate to show to etcd]:FILE:_files' \
		'--etcd-keyfile=[private key of that certificate]:FILE:_files' \
		'--etcd-username=[user of etcd]:NAME: ' \
		'--etcd-password=[the user'\''s password; shows in ps, so better a file]:TEXT: ' \
		'--etcd-password-file=[file with the user'\''s password]:FILE:_files' \
		'--subnet-lease-ttl=[life of a lease that nobody renews]:DURATION: ' \
		'--subnet-lease-renew-margin=[how much of that must always be left]:MINUTES: ' \
		'--etcd-embedded=-[run an etcd inside tulled, and use it]::true or false:(true false)' \
		'--etcd-listen=[where it serves]:URL: ' \
		'*--network=[network for an empty etcd; IPv4, IPv6 or both]:CIDR: ' \
		'--backend=[backend for --network]:TYPE:(alloc host-gw ipip vxlan)' \
		'--node-id=[lasting identity of this host (default /etc/machine-id)]:TEXT: ' \
		'--node-name=[name of this host, for people (default the hostname)]:TEXT: ' \
		'--state-dir=[folder for what outlives a reboot]:DIR:_files -/' \
		'*--iface=[interface that faces the other hosts; repeatable]:NAME|IP:_net_interfaces' \
		'*--iface-regex=[the same by pattern, tried after --iface; repeatable]:REGEX: ' \
		'--iface-can-reach=[the same by the route to an address, tried last]:IP: ' \
		'--public-ip=[IPv4 address others send to (default the interface'\''s)]:IP: ' \
		'--public-ipv6=[IPv6 address others send to (default the interface'\''s)]:IP: ' \
		'--iface-from-node-ip=-[the one that has the Node'\''s InternalIP]::true or false:(true false)' \
		'--public-ip-from=[interface, or external\: the Node'\''s]:WHAT:(interface external)' \
		'--subnet-file=[env file for runtimes]:FILE:_files' \
		'--cni-conf-file=[CNI config to write (default none)]:FILE:_files' \
		'--ip-blackhole-route=-[drop packets for addresses that no container has]::true or false:(true false)' \
		'--ip-masq=-[masquerade what leaves the network; also =ipv4, =ipv6]::true or false:(true false ipv4 ipv6)' \
		'*--no-masq-cidrs=[but not to these; comma-separated, repeatable]:CIDRS: ' \
		'--no-masq-cidrs-file=[nor to those listed there, read again when it changes]:FILE:_files' \
		'--ip-masq-fully-random-disable=-[masquerade without fully random ports]::true or false:(true false)' \
		'--iptables-forward-rules=-[have iptables let the network pass]::true or false:(true false)' \
		'--filter=[rules are nftables, iptables, none, or auto]:KIND:(auto nftables iptables none)' \
		'--iptables-resync=[how often to look after iptables'\'' rules]:SECONDS: ' \
		'--kube-subnet-mgr=-[keep leases in Kubernetes'\'' Nodes, not in etcd]::true or false:(true false)' \
		'--kube-api-url=[API server (default the pod'\''s own cluster'\''s)]:URL: ' \
		'--kubeconfig-file=[kubeconfig (default the pod'\''s service account)]:FILE:_files' \
		'--kube-annotation-prefix=[prefix of annotations]:PREFIX: ' \
		'--net-config-path=[network config]:FILE:_files' \
		'--set-node-network-unavailable=-[set the Node'\''s condition]::true or false:(true false)' \
		'--status-socket=[where tulled status asks]:FILE:_files' \
		'--output=[how they answer\: text, json, yaml]:FORMAT:(text json yaml)' \
		'--healthz-ip=[address of health, metrics and a page]:IP: ' \
		'--healthz-port=[their port; 0 is no server]:PORT: ' \
		'--pprof=-[profiles of the process there too]::true or false:(true false)' \
		'--peer-metrics=-[metrics of each peer there too]::true or false:(true false)' \
		'--probe-interval=[how often to probe a few peers; 0 is never]:SECONDS: ' \
		'--probe-port=[UDP port for that, the same on all nodes]:PORT: ' \
		'-v=[log level]:LEVEL: ' \
		'--vmodule=[log levels by source file]:FILE=LEVEL,…: ' \
		'--log_backtrace_at=[source line to log a stack trace at]:FILE\:LINE: ' \
		'--dry-run=-[with cleanup\: say what it would remove]::true or false:(true false)' \
		'--flannel=-[with cleanup\: remove flannel'\''s devices and rules too]::true or false:(true false)' \
		'--cni-plugins=[with install-cni\: folder with the plugins]:DIR:_files -/' \
		'--help=-[print this]::true or false:(true false)' \
		'--version=-[print the version]::true or false:(true false)' \
		'1: :->command' \
		'2: :->word' && ret=0
	case $state in
	command) _describe -t commands command commands && ret=0 ;;
	word)
		case $line[1] in
		check-config) _files && ret=0 ;;
		bugreport) _files && ret=0 ;;
		install-cni) _files -/ && ret=0 ;;
		completion) compadd bash zsh fish && ret=0 ;;
		esac
		;;
	esac
	return ret
}

# It is a function of its own when it is loaded by its name, and else is read.
if [[ ${funcstack[1]} == _tulled ]]; then
	_tulled "$@"
else
	compdef _tulled tulled
fi
