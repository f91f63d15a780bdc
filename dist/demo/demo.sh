#!/usr/bin/env bash
# Three hosts with a container each, isolated on this machine: network
# namespaces on a switch of their own, all removed at the end. The first host
# runs an etcd beside its tulled; the others join it.
#
# HOLD=1 leaves everything up until Enter or Ctrl-C.
#
# One demo at a time is up on a machine. It removes only what it made, and what a
# demo made that was killed. Its processes and namespaces bear its mark.
set -euo pipefail
cd "$(dirname "$0")/../.."
tulled=$PWD/bin/tulled
name=tulle-demo
namespaces="switch host1 host2 host3 pod1 pod2 pod3"
claim=/run/tulle-demo # locked by the demo that is up; contains its mark and its folder
daemons=()

say() { printf '\n== %s\n' "$*"; }
run() { printf '$ %s\n' "$*"; "$@"; }
die() { printf '%s\n' "$*" >&2; exit 1; }

# started PID prints when the process started, in ticks since the boot. It fails for a process that has ended.
started() {
	local stat
	{ stat=$(<"/proc/$1/stat"); } 2>/dev/null || return
	read -ra stat <<<"${stat##*) }"
	[ "${stat[0]}" != Z ] && echo "${stat[19]}"
}

# Two processes with one ID have not started at the same time, so no other run has this mark.
mark=TULLE_DEMO=$$-$(started $$)

# owner MARK prints the process ID of the demo with that mark. It fails if that demo has ended.
owner() {
	local process=${1#*=}
	[ -n "$process" ] && [ "$(started "${process%-*}")" = "${process#*-}" ] && echo "${process%-*}"
}

# claim_machine waits for the claim, and fails if the demo that has it is alive.
claim_machine() {
	local marked pid
	while :; do
		exec {lock}<>"$claim"
		until flock -w 0.5 "$lock"; do
			read -r marked _ <"$claim" || true
			! pid=$(owner "${marked:-}") || die "Another demo is up, process $pid. It keeps its namespaces. To end it, run: kill $pid"
		done
		[ "/proc/$$/fd/$lock" -ef "$claim" ] && return
		exec {lock}>&- # that file was removed by the demo that ended
	done
}

# mark_of NAMESPACE prints the mark that the namespace bears.
mark_of() { ip -n "$name-$1" -o link show lo 2>/dev/null | sed -n 's/.* alias //p'; }

# processes MARK FOLDER prints the IDs of the processes that a demo started. tulled passes tulle-etcd no variables.
processes() { printf '%s\n' "$1" "--data-dir=$2/host1/etcd" | grep -lszxFf - /proc/[0-9]*/{environ,cmdline} | cut -d/ -f3; }

# sweep MARK FOLDER removes what the demo with that mark made.
sweep() {
	local ns signal try left
	for signal in TERM KILL; do
		for try in {1..100}; do
			mapfile -t left < <(processes "$1" "$2")
			[ ${#left[@]} -gt 0 ] || break 2
			kill "-$signal" "${left[@]}" 2>/dev/null || true
			sleep 0.1
		done
	done
	for ns in $namespaces; do [ "$(mark_of "$ns")" != "$1" ] || ip netns delete "$name-$ns"; done
	rm -rf "$2"
}

finish() {
	local code=$?
	trap - EXIT
	trap '' INT TERM HUP
	case $code in
	0 | 129 | 130 | 143) ;;
	*) echo "the demo failed; the daemons' last log lines:" >&2; tail -n 5 "$folder"/host*.log >&2 || true ;;
	esac
	sweep "$mark" "$folder"
	rm -f "$claim"
	exit "$code"
}

# within SECONDS COMMAND waits until the command succeeds.
within() {
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$end" ] || { echo "timed out: $*" >&2; return 1; }
		sleep 0.1
	done
}

# start COMMAND starts a process of this demo in the background.
start() { env "$mark" "$@" {lock}>&- & }

# namespace NAME makes a namespace that bears the mark before it has its name.
namespace() { unshare -n sh -c 'ip link set lo alias "$1" up && ip netns attach "$2" $$' sh "$mark" "$name-$1"; }

on() { local ns=$1; shift; ip netns exec "$name-$ns" "$@"; }

# certificates makes an authority and, signed by it, what etcd shows.
certificates() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=demo \
		-keyout "$folder/ca.key" -out "$folder/ca.crt"
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=etcd \
		-keyout "$folder/etcd.key" -out "$folder/etcd.csr"
	openssl x509 -req -in "$folder/etcd.csr" -CA "$folder/ca.crt" -CAkey "$folder/ca.key" -CAcreateserial -days 2 \
		-extfile <(echo "subjectAltName=IP:198.18.0.1") -out "$folder/etcd.crt"
} >/dev/null 2>&1

# host N makes a host at 198.18.0.N.
host() {
	namespace "host$1"
	ip -n "$name-switch" link add "port$1" type veth peer name eth0 netns "$name-host$1"
	ip -n "$name-switch" link set "port$1" master br0 up
	ip -n "$name-host$1" addr add "198.18.0.$1/24" dev eth0
	ip -n "$name-host$1" link set eth0 up
	ip -n "$name-host$1" route add default via 198.18.0.254
}

# daemon N starts tulled on host N, in the background.
daemon() {
	local flags=(--node-id "demo-$1" --node-name "host$1" --subnet-file "$folder/host$1.env" --state-dir "$folder/host$1" --status-socket "$folder/host$1.sock"
		--etcd-cafile "$folder/ca.crt" --etcd-certfile "$folder/etcd.crt" --etcd-keyfile "$folder/etcd.key")
	if [ "$1" = 1 ]; then
		flags+=(--etcd-embedded --etcd-listen https://198.18.0.1:2379 --network 10.5.0.0/16)
	else
		flags+=(--etcd-endpoints https://198.18.0.1:2379)
	fi
	start ip netns exec "$name-host$1" "$tulled" "${flags[@]}" >>"$folder/host$1.log" 2>&1
	daemons[$1]=$!
}

# pod N puts a container's network on host N, as a runtime does that reads the env file.
pod() {
	. "$folder/host$1.env"
	local gateway=${FLANNEL_SUBNET%/*}
	ip -n "$name-host$1" link add cni0 mtu "$FLANNEL_MTU" type bridge
	ip -n "$name-host$1" addr add "$FLANNEL_SUBNET" dev cni0
	ip -n "$name-host$1" link set cni0 up
	namespace "pod$1"
	ip -n "$name-host$1" link add pod type veth peer name eth0 netns "$name-pod$1"
	ip -n "$name-host$1" link set pod mtu "$FLANNEL_MTU" master cni0 up
	ip -n "$name-pod$1" addr add "${gateway%.*}.2/24" dev eth0
	ip -n "$name-pod$1" link set eth0 mtu "$FLANNEL_MTU" up
	ip -n "$name-pod$1" route add default via "$gateway"
	address[$1]=${gateway%.*}.2
}

reach() { on "pod$1" ping -n -q -c 1 -W 1 "${address[$2]}"; }

leases() { on host1 "$tulled" leases --etcd-endpoints https://198.18.0.1:2379 --etcd-cafile "$folder/ca.crt" --etcd-certfile "$folder/etcd.crt" --etcd-keyfile "$folder/etcd.key"; }

# throughout COMMAND pings from the first container to the second while the command runs, and counts.
throughout() {
	start ip netns exec "$name-pod1" ping -n -q -i 0.02 "${address[2]}" >"$folder/ping"
	local ping=$!
	"$@"
	sleep 1
	kill -INT "$ping"
	wait "$ping" || true
	grep transmitted "$folder/ping" | sed 's/^/   meanwhile, from pod1 to pod2: /'
}

claim_machine
if read -r marked folder <"$claim"; then
	say "Removing what a demo left behind that was killed"
	sweep "$marked" "$folder"
fi
trap 'rm -f "$claim"' EXIT
for ns in $namespaces; do
	[ ! -e "/run/netns/$name-$ns" ] || die "The namespace $name-$ns exists, and no demo made it. To remove it, run: ip netns delete $name-$ns"
done
folder=$(mktemp -u -d -t tulle-demo.XXXXXXXX)
printf '%s %s\n' "$mark" "$folder" >"$claim"
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
trap '' TSTP # make does not wait for a demo that Ctrl-Z has stopped
mkdir -m 700 "$folder"

say "Three hosts on a switch: 198.18.0.1, .2 and .3"
namespace switch
ip -n "$name-switch" link add br0 type bridge
ip -n "$name-switch" link set br0 up
for i in 1 2 3; do host $i; done
certificates

say "Starting tulled on each; the first begins the network 10.5.0.0/16 in its own etcd"
for i in 1 2 3; do daemon $i; done
for i in 1 2 3; do within 30 test -s "$folder/host$i.env"; done

say "The leases"
leases
say "What host 1 tells its container runtime ($folder/host1.env)"
cat "$folder/host1.env"
say "Host 1's routes"
run ip -n "$name-host1" route

say "A container on each host, and who reaches whom"
declare -A address
for i in 1 2 3; do pod $i; done
printf '%18s' ''; for i in 1 2 3; do printf '%16s' "${address[$i]}"; done; echo
for i in 1 2 3; do
	printf 'pod%s %13s' "$i" "${address[$i]}"
	for j in 1 2 3; do within 20 reach $i $j && printf '%16s' "$(on "pod$i" ping -n -c 1 -W 1 "${address[$j]}" | sed -n 's/.*time=//p')"; done
	echo
done

say "Host 2 loses its tunnel device, with all that was on it"
lose() {
	run ip -n "$name-host2" link delete tulle.1
	within 10 reach 1 2
	run ip -n "$name-host2" route show dev tulle.1
}
throughout lose

say "Host 2's daemon is killed, stays away for two seconds and is started again"
settled() { [ "$(grep -c 'in sync with all peers' "$folder/host2.log")" -ge 2 ]; }
crash() {
	run kill -9 "${daemons[2]}"
	wait "${daemons[2]}" 2>/dev/null || true
	sleep 2
	daemon 2
	within 20 settled
}
throughout crash

say "The leases are as they were"
leases
say "And host 2's tulled says"
run "$tulled" status --status-socket "$folder/host2.sock"
run "$tulled" explain "${address[3]}" --status-socket "$folder/host2.sock"

if [ "${HOLD:-}" = 1 ]; then
	say "All stays up. In another terminal:"
	cat <<-END
		  ip netns exec $name-pod1 ping ${address[3]}     # from container to container
		  ip -n $name-host1 route                        # what a host's kernel holds
		  ip -n $name-host2 link delete tulle.1          # break something
		  tail -f $folder/host2.log                      # and watch it heal
		  $tulled status --status-socket $folder/host2.sock
		  kill -9 ${daemons[3]}                          # host 3's daemon
	END
	trap 'exit 0' INT TERM
	if [ -t 0 ]; then
		read -r -p "Enter or Ctrl-C removes it all. " || true
	else
		echo "Ctrl-C or SIGTERM removes it all."
		exec {never}<> <(:)
		read -r -u "$never"
	fi
fi
say "Done; removing it all"
