# bash completion for tulled
_tulled() {
	# bash splits words at equals signs and colons, so split the line at spaces here.
	local line=${COMP_LINE:0:COMP_POINT} of= command= prefix= word name
	local -a words
	read -a words <<<"$line"
	[[ $line != *[[:space:]] ]] || words+=("")
	local cur=${words[${#words[@]} - 1]}
	COMPREPLY=()
	for word in "${words[@]:1:${#words[@]} - 2}"; do
		name=${word#-} name=${name#-}
		if [[ $of ]]; then
			of=
		elif [[ $word != -* ]]; then
			: "${command:=$word}"
		else
			case $name in
			etcd-endpoints | etcd-prefix | etcd-cafile | etcd-certfile | etcd-keyfile | etcd-username | etcd-password | etcd-password-file | subnet-lease-ttl | subnet-lease-renew-margin | etcd-listen | network | backend | node-id | node-name | state-dir | iface | iface-regex | iface-can-reach | public-ip | public-ipv6 | public-ip-from | subnet-file | cni-conf-file | no-masq-cidrs | no-masq-cidrs-file | filter | iptables-resync | kube-api-url | kubeconfig-file | kube-annotation-prefix | net-config-path | status-socket | healthz-ip | healthz-port | probe-interval | probe-port | v | vmodule | log_backtrace_at | output | cni-plugins) of=$name ;;
			esac
		fi
	done
	if [[ ! $of && $cur == -*=* ]]; then
		prefix=${cur%%=*}= cur=${cur#*=}
		of=${prefix#-} of=${of#-} of=${of%=}
		[[ $COMP_WORDBREAKS != *=* ]] || prefix= # bash keeps the text before the equals sign
	fi
	case $of in
	'')
		if [[ $cur == -* ]]; then
			local flags=
			case $command in
			check-config) flags="--output --strict" ;;
			leases) flags="--output" ;;
			status) flags="--output --wait --watch" ;;
			peers) flags="--output --failing --narrow" ;;
			explain) flags="--output" ;;
			bugreport) flags="--output" ;;
			cleanup) flags="--output --dry-run --flannel" ;;
			rotate-key) flags="--output" ;;
			install-cni) flags="--output --cni-plugins" ;;
			version) flags="--output" ;;
			esac
			_tulled_words "--etcd-endpoints --etcd-prefix --etcd-cafile --etcd-certfile --etcd-keyfile --etcd-username --etcd-password --etcd-password-file --subnet-lease-ttl --subnet-lease-renew-margin --etcd-embedded --etcd-listen --etcd-listen-without-client-certs --network --backend --node-id --node-name --state-dir --allow-extension --iface --iface-regex --iface-can-reach --public-ip --public-ipv6 --iface-from-node-ip --public-ip-from --subnet-file --cni-conf-file --ip-blackhole-route --ip-masq --no-masq-cidrs --no-masq-cidrs-file --ip-masq-fully-random-disable --iptables-forward-rules --filter --iptables-resync --kube-subnet-mgr --kube-api-url --kubeconfig-file --kube-annotation-prefix --net-config-path --set-node-network-unavailable --status-socket --healthz-ip --healthz-port --pprof --peer-metrics --probe-interval --probe-port -v --vmodule --log_backtrace_at --help --version $flags"
		elif [[ ! $command ]]; then
			_tulled_words "check-config leases status peers explain bugreport cleanup rotate-key install-cni version man completion help"
		else
			case $command in
			check-config) _tulled_paths -f ;;
			bugreport) _tulled_paths -f ;;
			install-cni) _tulled_paths -d ;;
			completion) _tulled_words "bash zsh fish" ;;
			help) _tulled_words "check-config leases status peers explain bugreport cleanup rotate-key install-cni version man completion" ;;
			esac
		fi
		;;
	etcd-cafile) _tulled_paths -f ;;
	etcd-certfile) _tulled_paths -f ;;
	etcd-keyfile) _tulled_paths -f ;;
	etcd-password-file) _tulled_paths -f ;;
	etcd-embedded) _tulled_words "true false" ;;
	etcd-listen-without-client-certs) _tulled_words "true false" ;;
	backend) _tulled_words "alloc host-gw ipip vxlan" ;;
	state-dir) _tulled_paths -d ;;
	allow-extension) _tulled_words "true false" ;;
	iface) _tulled_words "$(ls /sys/class/net)" ;;
	iface-from-node-ip) _tulled_words "true false" ;;
	public-ip-from) _tulled_words "interface external" ;;
	subnet-file) _tulled_paths -f ;;
	cni-conf-file) _tulled_paths -f ;;
	ip-blackhole-route) _tulled_words "true false" ;;
	ip-masq) _tulled_words "true false ipv4 ipv6" ;;
	no-masq-cidrs-file) _tulled_paths -f ;;
	ip-masq-fully-random-disable) _tulled_words "true false" ;;
	iptables-forward-rules) _tulled_words "true false" ;;
	filter) _tulled_words "auto nftables iptables none" ;;
	kube-subnet-mgr) _tulled_words "true false" ;;
	kubeconfig-file) _tulled_paths -f ;;
	net-config-path) _tulled_paths -f ;;
	set-node-network-unavailable) _tulled_words "true false" ;;
	status-socket) _tulled_paths -f ;;
	pprof) _tulled_words "true false" ;;
	peer-metrics) _tulled_words "true false" ;;
	output) _tulled_words "text json yaml" ;;
	wait) _tulled_words "true false" ;;
	watch) _tulled_words "true false" ;;
	failing) _tulled_words "true false" ;;
	narrow) _tulled_words "true false" ;;
	strict) _tulled_words "true false" ;;
	dry-run) _tulled_words "true false" ;;
	flannel) _tulled_words "true false" ;;
	cni-plugins) _tulled_paths -d ;;
	help) _tulled_words "true false" ;;
	version) _tulled_words "true false" ;;
	esac
	COMPREPLY=("${COMPREPLY[@]/#/$prefix}")
}

_tulled_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur"); }

_tulled_paths() {
	mapfile -t COMPREPLY < <(compgen "$1" -- "$cur")
	compopt -o filenames 2>/dev/null
}

complete -F _tulled tulled
