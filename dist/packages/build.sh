#!/bin/sh
# Builds tulle's deb and rpm into a folder:
#
#	VERSION=v1.2.3 ARCH=arm64 dist/packages/build.sh FOLDER
#
# ARCH is Go's name. The same commit, or the same VERSION and
# SOURCE_DATE_EPOCH, gives the same bytes.
set -eu
umask 022

[ $# = 1 ] || { echo "usage: $0 FOLDER" >&2; exit 1; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cd "$(dirname "$0")"

: "${VERSION:=$(git describe --tags --always --dirty)}"
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
: "${ARCH:=$(go env GOARCH)}"
export SOURCE_DATE_EPOCH

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
BINARIES=$temporary/bin
export BINARIES
mkdir "$BINARIES"
go build -o "$temporary/nfpm" github.com/goreleaser/nfpm/v2/cmd/nfpm
# -buildvcs=false, because Go would write in facts that differ between clones.
CGO_ENABLED=0 GOOS=linux GOARCH=$ARCH go -C ../.. build -tags grpcnotrace -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION" -o "$BINARIES/" . ./pkg/cmd/tulle-etcd ./pkg/cmd/tulle-wireguard ./pkg/cmd/tulle-controller
# Programs for this machine write the man pages and the completions for any package.
EXTRAS=$temporary/extras
export EXTRAS
mkdir "$temporary/native" "$EXTRAS"
CGO_ENABLED=0 go -C ../.. build -buildvcs=false -o "$temporary/native/" . ./pkg/cmd/tulle-etcd ./pkg/cmd/tulle-wireguard ./pkg/cmd/tulle-controller
mv "$temporary/native/tulle" "$temporary/native/tulled"
for program in tulled tulle-etcd tulle-wireguard tulle-controller; do
	"$temporary/native/$program" man | gzip -9n >"$EXTRAS/$program.8.gz"
	"$temporary/native/$program" completion bash >"$EXTRAS/$program.bash"
done

VERSION=$(./version.sh "$VERSION" "$SOURCE_DATE_EPOCH")
case $ARCH in
arm) ARCH=arm7 ;;
esac
export VERSION ARCH
for packager in deb rpm; do
	"$temporary/nfpm" package --config nfpm.yaml --packager "$packager" --target "$folder"
done
