#compdef tulled
# zsh completion for tulled
_tulled() {
	local curcontext=$curcontext state line ret=1 word of= command=
	typeset -A opt_args
	local -a commands=(
		'check-config:explain a network config, or what is wrong with it'
		'leases:list the leases in the store, and why it rejects some'
		'status:show the state of this host'\''s tulled; exit with 1 if it is not ready'
		'peers:list the other nodes as this host sees them, or those that match'
		'explain:show who owns an address, and how the kernel reaches it'
		'bugreport:collect what helps to find a fault in one archive'
		'cleanup:remove everything that tulled created on this host'
		'rotate-key:replace this host'\''s WireGuard key while packets flow'
		'install-cni:install CNI plugins in /opt/cni/bin, or DIR; keep foreign ones'
		'version:print the version'
		'man:print the manual page'
		'completion:print completions for bash, zsh or fish'
		'help:explain a command and its flags'
	)
	local -a flags=(
		'--etcd-endpoints=[etcd URLs, comma-separated]:URLS: '
		'--etcd-prefix=[prefix of all keys in etcd]:KEY: '
		'--etcd-cafile=[CA certificates that verify etcd'\''s certificate]:FILE:_files'
		'--etcd-certfile=[certificate for etcd\: client'\''s, or embedded server'\''s]:FILE:_files'
		'--etcd-keyfile=[private key of --etcd-certfile]:FILE:_files'
		'--etcd-username=[etcd user]:NAME: '
		'--etcd-password=[password of the etcd user; prefer --etcd-password-file]:TEXT: '
		'--etcd-password-file=[file with the password of the etcd user]:FILE:_files'
		'--subnet-lease-ttl=[lifetime of a lease without renewal]:DURATION: '
		'--subnet-lease-renew-margin=[time that a lease must always have left]:MINUTES: '
		'--etcd-embedded=-[run an etcd on this host, and use it]::true or false:(true false)'
		'--etcd-listen=[URL of the embedded etcd]:URL: '
		'--etcd-listen-without-client-certs=-[let clients without a certificate in; unsafe]::true or false:(true false)'
		'*--network=[network for an empty embedded etcd; IPv4, IPv6 or both]:CIDR: '
		'--backend=[backend for --network]:TYPE:(alloc host-gw ipip vxlan)'
		'--node-id=[lasting ID of this host (default /etc/machine-id)]:TEXT: '
		'--node-name=[name of this host in its lease (default the hostname)]:TEXT: '
		'--state-dir=[folder for state kept over reboots]:DIR:_files -/'
		'--allow-extension=-[run the commands of the network'\''s config, as root]::true or false:(true false)'
		'*--iface=[uplink\: interface that faces the other hosts; repeatable]:NAME|IP:_net_interfaces'
		'*--iface-regex=[uplink by regular expression, after --iface; repeatable]:REGEX: '
		'--iface-can-reach=[uplink by the route to this address, tried last]:IP: '
		'--public-ip=[IPv4 address to publish (default the uplink'\''s)]:IP: '
		'--public-ipv6=[IPv6 address to publish (default the uplink'\''s)]:IP: '
		'--iface-from-node-ip=-[uplink that has the Node'\''s InternalIP]::true or false:(true false)'
		'--public-ip-from=[public IP\: the interface'\''s or external]:WHAT:(interface external)'
		'--subnet-file=[env file for runtimes]:FILE:_files'
		'--cni-conf-file=[CNI configuration file to write (default none)]:FILE:_files'
		'--ip-blackhole-route=-[drop packets to unused addresses of this host'\''s subnet]::true or false:(true false)'
		'--ip-masq=-[masquerade what leaves the network; also =ipv4, =ipv6]::true or false:(true false ipv4 ipv6)'
		'*--no-masq-cidrs=[networks not to masquerade to; comma-separated, repeatable]:CIDRS: '
		'--no-masq-cidrs-file=[file of such networks, re-read when it changes]:FILE:_files'
		'--ip-masq-fully-random-disable=-[masquerade without fully random ports]::true or false:(true false)'
		'--iptables-forward-rules=-[accept the network in iptables'\'' FORWARD]::true or false:(true false)'
		'--filter=[firewall\: nftables, iptables, none or auto]:KIND:(auto nftables iptables none)'
		'--iptables-resync=[poll interval of legacy iptables tables]:SECONDS: '
		'--kube-subnet-mgr=-[keep leases in Kubernetes Nodes instead of etcd]::true or false:(true false)'
		'--kube-api-url=[API server (default the pod'\''s cluster)]:URL: '
		'--kubeconfig-file=[kubeconfig (default the pod'\''s service account)]:FILE:_files'
		'--kube-annotation-prefix=[prefix of annotations]:PREFIX: '
		'--net-config-path=[network config file]:FILE:_files'
		'--set-node-network-unavailable=-[set the NetworkUnavailable condition]::true or false:(true false)'
		'--status-socket=[unix socket of tulled status]:FILE:_files'
		'--healthz-ip=[HTTP address for health and metrics]:IP: '
		'--healthz-port=[HTTP port; 0 disables the server]:PORT: '
		'--pprof=-[serve profiles of the process over HTTP]::true or false:(true false)'
		'--peer-metrics=-[serve metrics of each peer]::true or false:(true false)'
		'--probe-interval=[interval between probes of peers; 0 disables them]:SECONDS: '
		'--probe-port=[UDP port of probes, the same on all nodes]:PORT: '
		'-v=[log level]:LEVEL: '
		'--vmodule=[log level by source file]:FILE=LEVEL,…: '
		'--log_backtrace_at=[source line at which to log a stack trace]:FILE\:LINE: '
		'--help=-[print this help]::true or false:(true false)'
		'--version=-[print the version]::true or false:(true false)'
	)
	for word in ${words[2,CURRENT-1]}; do
		if [[ -n $of ]]; then
			of=
		elif [[ $word != -* ]]; then
			command=$word
			break
		else
			case ${${word#-}#-} in
			etcd-endpoints | etcd-prefix | etcd-cafile | etcd-certfile | etcd-keyfile | etcd-username | etcd-password | etcd-password-file | subnet-lease-ttl | subnet-lease-renew-margin | etcd-listen | network | backend | node-id | node-name | state-dir | iface | iface-regex | iface-can-reach | public-ip | public-ipv6 | public-ip-from | subnet-file | cni-conf-file | no-masq-cidrs | no-masq-cidrs-file | filter | iptables-resync | kube-api-url | kubeconfig-file | kube-annotation-prefix | net-config-path | status-socket | healthz-ip | healthz-port | probe-interval | probe-port | v | vmodule | log_backtrace_at | output | cni-plugins) of=$word ;;
			esac
		fi
	done
	case $command in
	check-config)
		flags+=(
			'--output=[output format\: text, json or yaml]:FORMAT:(text json yaml)'
			'--strict=-[check-config\: fail on warnings, too]::true or false:(true false)'
		)
		;;
	leases)
		flags+=(
			'--output=[output format\: text, json or yaml]:FORMAT:(text json yaml)'
		)
		;;
	status)
		flags+=(
			'--output=[output format\: text, json or yaml]:FORMAT:(text json yaml)'
			'--wait=-[status\: wait until it is ready; =30s waits that long at most]::true or false:(true false)'
			'--watch=-[status\: write the state every second until interrupted]::true or false:(true false)'
		)
		;;
	peers)
		flags+=(
			'--output=[output format\: text, json or yaml]:FORMAT:(text json yaml)'
			'--failing=-[peers\: list only peers with a problem]::true or false:(true false)'
			'--narrow=-[peers\: write two short lines a peer, as on a narrow terminal]::true or false:(true false)'
		)
		;;
	explain)
		flags+=(
			'--output=[output format\: text, json or yaml]:FORMAT:(text json yaml)'
		)
		;;
	bugreport)
		flags+=(
			'--output=[output format\: text, json or yaml]:FORMAT:(text json yaml)'
		)
		;;
	cleanup)
		flags+=(
			'--output=[output format\: text, json or yaml]:FORMAT:(text json yaml)'
			'--dry-run=-[cleanup\: list what it would remove]::true or false:(true false)'
			'--flannel=-[cleanup\: remove flannel'\''s devices and rules too]::true or false:(true false)'
		)
		;;
	rotate-key)
		flags+=(
			'--output=[output format\: text, json or yaml]:FORMAT:(text json yaml)'
		)
		;;
	install-cni)
		flags+=(
			'--output=[output format\: text, json or yaml]:FORMAT:(text json yaml)'
			'--cni-plugins=[install-cni\: folder with the plugins]:DIR:_files -/'
		)
		;;
	version)
		flags+=(
			'--output=[output format\: text, json or yaml]:FORMAT:(text json yaml)'
		)
		;;
	esac
	_arguments -C $flags '1: :->command' '2: :->word' && ret=0
	case $state in
	command) _describe -t commands command commands && ret=0 ;;
	word)
		case $line[1] in
		check-config) _files && ret=0 ;;
		bugreport) _files && ret=0 ;;
		install-cni) _files -/ && ret=0 ;;
		completion) compadd bash zsh fish && ret=0 ;;
		help) compadd check-config leases status peers explain bugreport cleanup rotate-key install-cni version man completion && ret=0 ;;
		esac
		;;
	esac
	return ret
}

# zsh autoloads this file as the function, or a person sources it.
if [[ ${funcstack[1]} == _tulled ]]; then
	_tulled "$@"
else
	compdef _tulled tulled
fi
