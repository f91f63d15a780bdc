#!/bin/sh
# Builds the release twice and compares: here, with the compiler's cache, and
# from a copy of the tree elsewhere, without a cache, in another
# environment.
#
#	VERSION=v1.2.3 ARCHES='amd64 s390x' dist/release/check.sh FOLDER
#
# FOLDER holds the release afterwards. The second build uses the cache CACHE, if that
# is set.
set -eu
[ $# = 1 ] || { echo "usage: $0 FOLDER" >&2; exit 1; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."

: "${VERSION:=$(git describe --tags --always --dirty)}"
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
export VERSION SOURCE_DATE_EPOCH

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
# Neither ignored nor deleted files belong to the tree.
copy="$temporary/another place, with a longer name"
mkdir "$copy"
git ls-files -co --exclude-standard --deduplicate | while read -r file; do
	[ ! -e "$file" ] || echo "$file"
done | tar -cf - -T - | tar -C "$copy" -xmf -

dist/release/build.sh "$folder"
(
	umask 077
	export GOCACHE="${CACHE:-$temporary/cache}" TZ=Asia/Kathmandu LC_ALL=C.UTF-8 GOFLAGS=-race GOAMD64=v3 GOARM=5
	"$copy/dist/release/build.sh" "$temporary/release"
)
for archive in "$temporary"/release/*; do
	cmp "$archive" "$folder/${archive##*/}"
done
cat "$folder/SHA256SUMS"
