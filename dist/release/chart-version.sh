#!/bin/sh
# Prints the chart's version, from the version of the release and the commit's time.
# Helm accepts semantic versions only, without a v. What is some commits after a
# release has that release's number, as in dist/packages/version.sh: v1.2.3-4-gabcdef
# is 1.2.3+4.gabcdef. A version without a number is 0.0.0, with all else after the +.
set -eu
export LC_ALL=C
version=$(echo "$1" | sed -E '
	s/^v([0-9])/\1/
	s/^([0-9]+\.[0-9]+)($|[-+])/\1.0\2/
	s/-([0-9]+)-g([0-9a-f]+)(-dirty)?$/+\1.g\2\3/
	s/(\+.*)-dirty$/\1.dirty/
	s/-dirty$/+dirty/')
number='(0|[1-9][0-9]*)'
word='(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)'
if ! echo "$version" | grep -qE "^$number\.$number\.$number(-$word(\.$word)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?\$"; then
	version=0.0.0+$2.$(echo "$1" | sed -E 's/-dirty$/.dirty/; s/[^0-9A-Za-z.-]/-/g; s/\.\.+/./g; s/^\.|\.$//g')
fi
echo "$version"
