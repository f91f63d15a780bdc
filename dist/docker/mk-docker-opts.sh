#!/bin/sh
# Writes the options that make Docker use this host's subnet of the network, from
# the env file that tulled or flanneld keeps. It replaces flannel's
# script of the same name: the same options give the same file.
#
# It parses the env file: nothing in it is executed.

LC_ALL=C
export LC_ALL

usage() {
	cat >&2 <<END
$0 [-f ENV-FILE] [-d DOCKER-ENV-FILE] [-i] [-c] [-m] [-6] [-k KEY]

Writes Docker's options from the env file of tulled or flanneld.
	-f	the env file to read (/run/flannel/subnet.env)
	-d	the file to write (/run/docker_opts.env)
	-i	each option as a variable of its own, like DOCKER_OPT_MTU="--mtu=1450"
	-c	all options in one variable; without -i and -c, both
	-k	the name of that variable (DOCKER_OPTS); what it holds in the
		environment comes first
	-m	without --ip-masq
	-6	with --ipv6 and --fixed-cidr-v6 where the network has IPv6
END
	exit 1
}

fail() {
	echo "$0: $*" >&2
	exit 1
}

env_file=/run/flannel/subnet.env
docker_file=/run/docker_opts.env
key=DOCKER_OPTS
each=false
combined=false
masquerade=true
ipv6=false
while getopts f:d:icmk:6h flag; do
	case $flag in
	f) env_file=$OPTARG ;;
	d) docker_file=$OPTARG ;;
	i) each=true ;;
	c) combined=true ;;
	m) masquerade=false ;;
	k) key=$OPTARG ;;
	6) ipv6=true ;;
	*) usage ;;
	esac
done
[ $each = true ] || [ $combined = true ] || { each=true combined=true; }
case $key in
'' | [0-9]* | *[!A-Za-z0-9_]*) fail "-k $key: not a variable name; use letters, digits and _" ;;
esac

carriage_return=$(printf '\r')
tab=$(printf '\t')

# trim strips what is blank at the beginning of $rest.
trim() {
	while :; do
		case $rest in
		[\ $tab]*) rest=${rest#?} ;;
		*) return ;;
		esac
	done
}

# assign takes a line as a shell would, and sets our variable if it is for one of
# them. It fails for what is neither an assignment nor a comment.
assign() {
	rest=${1%"$carriage_return"}
	trim
	case $rest in
	'' | '#'*) return 0 ;;
	export[\ $tab]*)
		rest=${rest#export}
		trim
		;;
	esac
	name=${rest%%=*}
	case $name in
	"$rest" | '' | [0-9]* | *[!A-Za-z0-9_]*) return 1 ;;
	esac
	rest=${rest#*=}
	case $rest in
	\"*\"*)
		rest=${rest#?}
		value=${rest%%\"*} rest=${rest#*\"}
		;;
	\'*\'*)
		rest=${rest#?}
		value=${rest%%\'*} rest=${rest#*\'}
		;;
	*)
		value=${rest%%[ $tab]*}
		rest=${rest#"$value"}
		;;
	esac
	case $name in
	FLANNEL_SUBNET) FLANNEL_SUBNET=$value ;;
	FLANNEL_IPV6_SUBNET) FLANNEL_IPV6_SUBNET=$value ;;
	FLANNEL_MTU) FLANNEL_MTU=$value ;;
	FLANNEL_IPMASQ) FLANNEL_IPMASQ=$value ;;
	*) return 0 ;;
	esac
	case $rest in
	'' | [\ $tab]*) trim ;;
	*) return 1 ;;
	esac
	case $rest in
	'' | '#'*) return 0 ;;
	esac
	return 1
}

# number reports whether $1 is a decimal number from $2 to $3.
number() {
	case $1 in
	'' | *[!0-9]* | ??????* | 0?*) return 1 ;;
	esac
	[ "$1" -ge "$2" ] && [ "$1" -le "$3" ]
}

# subnet4 reports whether $1 is an address with its prefix, like 10.5.34.1/24.
subnet4() {
	case $1 in
	*[!0-9./]* | *..* | .* | *./* | */*/*) return 1 ;;
	*/*) number "${1#*/}" 0 32 || return 1 ;;
	*) return 1 ;;
	esac
	rest=${1%/*}
	for i in 1 2 3 4; do
		number "${rest%%.*}" 0 255 || return 1
		case $i$rest in
		4*.*) return 1 ;;
		[123]*.*) rest=${rest#*.} ;;
		[123]*) return 1 ;;
		esac
	done
}

# subnet6 reports whether $1 may be an IPv6 one. Docker checks it closely.
subnet6() {
	case $1 in
	*[!0-9A-Fa-f:/]* | *:::* | *::*::* | */*/* | *[!:/][!:/][!:/][!:/][!:/]*) return 1 ;;
	*:*:*/*) number "${1#*/}" 0 128 ;;
	*) return 1 ;;
	esac
}

if [ -f "$env_file" ]; then
	[ "$(wc -c <"$env_file")" -le 65536 ] || fail "$env_file is not an env file: it is too large, or cannot be read"
	at=0
	while IFS= read -r line || [ -n "$line" ]; do
		at=$((at + 1))
		assign "$line" || fail "$env_file: line $at is not NAME=VALUE; delete the file, and tulled writes it again"
	done <"$env_file"
elif [ -e "$env_file" ]; then
	fail "$env_file is not a regular file"
elif [ -z "$FLANNEL_SUBNET$FLANNEL_IPV6_SUBNET" ]; then
	echo "$0: $env_file does not exist, and Docker will not join the network; is tulled running?" >&2
fi

if [ -n "$FLANNEL_SUBNET" ]; then
	subnet4 "$FLANNEL_SUBNET" || fail "FLANNEL_SUBNET is not an IPv4 address with a prefix length, like 10.5.34.1/24"
	DOCKER_OPT_BIP=--bip=$FLANNEL_SUBNET
fi
if [ -n "$FLANNEL_MTU" ]; then
	number "$FLANNEL_MTU" 0 65535 || fail "FLANNEL_MTU is not a number from 0 to 65535"
	DOCKER_OPT_MTU=--mtu=$FLANNEL_MTU
fi
if [ $masquerade = true ]; then
	# One of the two masquerades.
	case $FLANNEL_IPMASQ in
	'') ;;
	true) DOCKER_OPT_IPMASQ=--ip-masq=false ;;
	false) DOCKER_OPT_IPMASQ=--ip-masq=true ;;
	*) fail "FLANNEL_IPMASQ is neither true nor false" ;;
	esac
fi
if [ $ipv6 = true ] && [ -n "$FLANNEL_IPV6_SUBNET" ]; then
	subnet6 "$FLANNEL_IPV6_SUBNET" || fail "FLANNEL_IPV6_SUBNET is not an IPv6 address with a prefix length, like fd00:5:0:22::1/64"
	# The env file has the subnet's first address, Docker wants the subnet.
	address=${FLANNEL_IPV6_SUBNET%/*}
	last=${address##*:}
	if [ -n "$last" ] && [ $((0x$last)) -gt 0 ]; then
		address=${address%"$last"}$(printf %x $((0x$last - 1)))
	fi
	case $address in
	*::0) address=${address%0} ;;
	esac
	DOCKER_OPT_FIXED_CIDR_V6=--fixed-cidr-v6=$address/${FLANNEL_IPV6_SUBNET#*/}
	DOCKER_OPT_IPV6=--ipv6
fi

# Options under such a name in the environment are added, as with flannel.
names=$({
	printf '%s\n' DOCKER_OPT_BIP DOCKER_OPT_FIXED_CIDR_V6 DOCKER_OPT_IPMASQ DOCKER_OPT_IPV6 DOCKER_OPT_MTU
	env | sed -n 's/^\(DOCKER_OPT_[A-Za-z0-9_]*\)=.*/\1/p'
} | sort -u)
eval "all=\$$key"
[ -z "$all" ] || all="$all "
text=
for name in $names; do
	eval "value=\$$name"
	[ -n "$value" ] || continue
	[ $each = false ] || text="$text$name=\"$value\"
"
	all="$all $value"
done
[ $combined = false ] || text="$text$key=\"$all\"
"
printf %s "$text" >"$docker_file" || fail "failed to write $docker_file"

# With a route to the subnet through another host, this one would not reach its containers.
[ -n "$FLANNEL_SUBNET" ] && command -v ip >/dev/null || exit 0
address=${FLANNEL_SUBNET%/*}
subnet=${address%.*}.$((${address##*.} - 1))/${FLANNEL_SUBNET#*/}
found=$(ip route show | awk -v subnet="$subnet" '$1 == subnet && / via /')
[ -z "$found" ] || fail "Your routing table already contains the subnet: $found"
