#!/bin/sh
# Builds tulle's release into a folder: an archive for every architecture, and
# their checksums.
#
#	VERSION=v1.2.3 ARCHES='amd64 s390x' dist/release/build.sh FOLDER
#
# ARCHES are Go's names, by default all of them. The same commit, or the same
# tree with the same VERSION and SOURCE_DATE_EPOCH, gives the same bytes, in any
# folder and for any user.
set -eu
umask 022
export LC_ALL=C TZ=UTC

[ $# = 1 ] || { echo "usage: $0 FOLDER" >&2; exit 1; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."

: "${VERSION:=$(git describe --tags --always --dirty)}"
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
: "${ARCHES:=amd64 arm64 arm ppc64le s390x riscv64}"
case $VERSION in
'' | -* | *[!A-Za-z0-9.+_~-]*)
	echo "invalid version: $VERSION" >&2
	exit 1
	;;
esac

# Everything that changes a binary is set here; the environment does not count. The
# compiler is the one that go.mod names; go fetches it if another is installed.
go_version=$(sed -n 's/^go //p' go.mod)
export GOTOOLCHAIN="go$go_version" GOFLAGS='-mod=readonly -tags=grpcnotrace' GOWORK=off GOEXPERIMENT= GOFIPS140=off \
	CGO_ENABLED=0 GOOS=linux GOAMD64=v1 GOARM64=v8.0 GOARM=7 GOPPC64=power8 GORISCV64=rva20u64

# programs builds the programs for a processor.
programs() {
	GOARCH=$1 go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION" -o "$2/" . ./pkg/cmd/tulle-etcd ./pkg/cmd/tulle-wireguard ./pkg/cmd/tulle-controller
	mv "$2/tulle" "$2/tulled"
}

# plugins builds the CNI plugins that our CNI configuration names for a processor,
# of the version that dist/cni/go.mod names.
plugins() {
	GOARCH=$1 go -C dist/cni build -trimpath -buildvcs=false -o "$2/" \
		-ldflags "-s -w -X github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion=$cni_version" tool
}
cni_version=$(sed -n 's,.*github.com/containernetworking/plugins \(v[^ ]*\).*,\1,p' dist/cni/go.mod)

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

# The files that are the same for all. The programs write their pages and
# completions without the environment.
common=$temporary/common
native=$temporary/native
host=$(go env GOHOSTARCH)
mkdir -p "$common/completions" "$native"
programs "$host" "$native"
for program in tulled tulle-etcd tulle-wireguard tulle-controller; do
	env -i "$native/$program" man >"$common/$program.8"
	env -i "$native/$program" completion bash >"$common/completions/$program"
	env -i "$native/$program" completion zsh >"$common/completions/_$program"
	env -i "$native/$program" completion fish >"$common/completions/$program.fish"
done
cp LICENSE README.md "$common"
cp -R dist/systemd dist/networkd dist/networkmanager dist/docker dist/prometheus dist/grafana "$common"
# The files for Kubernetes name the image of this release. The chart has its version,
# so that helm list and helm search tell two releases apart.
mkdir "$common/kubernetes"
cp -RL dist/kubernetes/chart dist/kubernetes/*.yaml "$common/kubernetes"
app_version=$(sed -n 's/^appVersion: //p' dist/kubernetes/chart/tulle/Chart.yaml)
chart_version=$(dist/release/chart-version.sh "$VERSION" "$SOURCE_DATE_EPOCH")
sed -i "s/^version: .*/version: $chart_version/; s/^appVersion: .*/appVersion: \"$VERSION\"/" "$common/kubernetes/chart/tulle/Chart.yaml"
sed -i "s/$app_version/$VERSION/" "$common"/kubernetes/tulle*.yaml
mkdir "$common/cni"
cp dist/cni/README.md "$common/cni"

rm -f "$folder"/tulle-*-linux-*.tar.gz "$folder/SHA256SUMS"
for arch in $ARCHES; do
	name=tulle-$VERSION-linux-$arch
	cp -R "$common" "$temporary/$name"
	if [ "$arch" = "$host" ]; then
		cp "$native"/* "$temporary/$name"
	else
		programs "$arch" "$temporary/$name"
	fi
	plugins "$arch" "$temporary/$name/cni"
	tar -C "$temporary" -cf "$temporary/$name.tar" --format=ustar --sort=name --mtime="@$SOURCE_DATE_EPOCH" \
		--owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX "$name"
	gzip -n -9 "$temporary/$name.tar"
	mv "$temporary/$name.tar.gz" "$folder"
	rm -rf "${temporary:?}/$name"
done
cd "$folder"
sha256sum tulle-*-linux-*.tar.gz >SHA256SUMS
