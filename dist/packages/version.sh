#!/bin/sh
# Prints a package's version, from the output of git describe and the commit's
# time. Packages sort by their versions: v1.2.3-rc.1 is before v1.2.3, and what is
# some commits after it comes after it. A version without a number sorts by its time.
set -eu
version=$(echo "$1" | sed -E '
	s/^v([0-9])/\1/
	s/-dirty$/+dirty/
	s/-([0-9]+)-g([0-9a-f]+)/+\1.g\2/
	/^[0-9]+\.[0-9]/! s/^/0.0.0+'"$2"'./
	s/-/~/
	s/-/./g')
case $version in
*[!A-Za-z0-9.+~]*)
	echo "invalid package version: $1" >&2
	exit 1
	;;
esac
echo "$version"
