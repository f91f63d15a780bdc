# tulle's commands; `make help` lists them.

VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
# go test starts packages in this order: those that take minutes first, the others beside them.
PACKAGES  ?= ./pkg/test/e2e ./pkg/cmd/tulle-controller ./subnet/etcd ./dist/release ./...
TESTFLAGS ?=
FUZZTIME  ?= 20s
PEERS     ?= 1000,10000,50000,100000
LEASES    ?= 1000,10000,50000
NODES     ?= 10,50
KUBE_NODES ?= 1000,5000
NEW_NODES ?= 500,5000
IMAGES    ?= 50
CLOUD_NODES ?= 50,5000
CLOUD_IDLE ?= 5m
CLOUD_LATENCY ?= 20ms
CLOUD_ROUTES ?= true
APPEAR    ?= 500
NETWORK_LATENCY ?= 100ms
SOAK      ?= 30m
KILLS     ?= 500
SOAK_CLOUD ?= 1h
SOAK_TUNNEL ?= 10m
SEED      ?= 0
HEAL      ?= all
HEAL_SLOW ?= 5m
TRAFFIC   ?= 1s
ROUNDS    ?= 3

# gRPC's tracing pages keep every exported method in the program: a fifth of its size.
TAGS := grpcnotrace

# A Go from 1.21 on downloads the version that go.mod names, unless its packager turned that off.
export GOTOOLCHAIN ?= auto

# test-vm runs the tests in files with the build tag vm: those of modules that this machine may lack.
VM_PACKAGES ?= ./...

# What must be on the machine, each as command:Debian-package or /file:Debian-package.
TEST_DEPS := ip:iproute2 bridge:iproute2 ping:iputils-ping gcc:gcc /usr/include/stdlib.h:libc6-dev \
	iptables:iptables nft:nftables dockerd:docker.io docker:docker.io busybox:busybox-static /usr/lib/cni/portmap:containernetworking-plugins \
	firewall-cmd:firewalld dbus-daemon:dbus-daemon ufw:ufw promtool:prometheus
DEMO_DEPS := ip:iproute2 ping:iputils-ping openssl:openssl
FLANNEL_DEPS := git:git iptables:iptables nft:nftables
KUBE_DEPS := etcd:etcd-server
KUBELET_DEPS := containerd:containerd runc:runc ctr:containerd git:git ldd:libc-bin
PACKAGES_DEPS := debootstrap:debootstrap rpm:rpm dpkg-deb:dpkg git:git ip:iproute2 iptables-legacy:iptables nft:nftables nsenter:util-linux
VM_DEPS   := ip:iproute2 bridge:iproute2 ping:iputils-ping xz:xz-utils qemu-system-x86_64:qemu-system-x86

.PHONY: build packages release release-check image manifests demo test test-packages test-vm test-vm-rotation test-vm-flannel test-flannel test-kube test-ginkgo test-kubelet test-aws test-azure test-ccm test-capi test-cloud soak soak-udp soak-wireguard soak-controller soak-cloud lint outdated fuzz bench bench-flannel bench-traffic bench-wireguard bench-heal bench-kube bench-controller bench-cloud bench-appear bench-network deps demo-deps flannel-deps kube-deps kubelet-deps packages-deps vm-deps moto clean help root go

build: go ## build bin/tulled, bin/tulle-etcd, bin/tulle-wireguard and bin/tulle-controller
	CGO_ENABLED=0 go build -tags $(TAGS) -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/tulled .
	CGO_ENABLED=0 go build -tags $(TAGS) -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/tulle-etcd ./pkg/cmd/tulle-etcd
	CGO_ENABLED=0 go build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/tulle-wireguard ./pkg/cmd/tulle-wireguard
	CGO_ENABLED=0 go build -tags $(TAGS) -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/tulle-controller ./pkg/cmd/tulle-controller

packages: go ## deb and rpm into bin/packages (ARCH=arm64)
	VERSION=$(VERSION) dist/packages/build.sh bin/packages

# The demo gets a process group of its own: Ctrl-C ends the demo, and not make, which would call it a failure.
demo: root go demo-deps build ## three hosts in namespaces, a container on each, something broken and healed (HOLD=1: stays up)
	@bash -mc 'dist/demo/demo.sh; exit $$?'

# The race detector is what needs cgo. Most tests wait, so more packages run at once than there are processors.
test: root go deps lint ## lint, then every test with -race; a skipped test fails (TESTFLAGS='-run X', PACKAGES=./subnet)
	CGO_ENABLED=1 go run ./pkg/test/testreport -race -count=1 -timeout 40m -p $$(($$(nproc) + 2)) $(TESTFLAGS) $(PACKAGES)

test-vm: go vm-deps ## the tests that need another kernel, in a virtual machine
	go run ./pkg/test/vmtest -timeout 25m $(VM_PACKAGES)

test-vm-rotation: go vm-deps ## a replacement of WireGuard keys under floods and streams, with a look at the wire, in a virtual machine
	go run ./pkg/test/vmtest -also rotation -run '^TestWireGuardReplacesItsKey$$' ./network

test-vm-flannel: go vm-deps flannel-deps ## WireGuard of whole daemons beside flannel's, which it builds, in a virtual machine
	go run ./pkg/test/vmtest -flannel ./pkg/test/wireguardtest

test-flannel: root go flannel-deps ## whole daemons beside flannel's, which it builds (FLANNELD=/a/binary, FLANNEL_SOURCE=/a/git/repository)
	CGO_ENABLED=1 go run ./pkg/test/testreport -count=1 -timeout 30m -tags flannel,kube -run '^Test(Kube)?Flannel' $(TESTFLAGS) ./pkg/test/e2e

test-packages: root go packages-deps ## both packages on machines with systemd: installed, confined, crashed, upgraded, purged
	CGO_ENABLED=1 go run ./pkg/test/testreport -count=1 -timeout 30m -tags packages ./pkg/test/packagetest

test-kube: root go kube-deps ## store, daemons, controller, chart and manifests on a real Kubernetes control plane, which it builds once (eight minutes)
	CGO_ENABLED=1 go run ./pkg/test/testreport -race -count=1 -timeout 30m -tags kube $(TESTFLAGS) ./pkg/test/kubetest ./pkg/kube ./pkg/election ./subnet/kube ./dist/kubernetes
	CGO_ENABLED=1 go run ./pkg/test/testreport -race -count=1 -timeout 30m -tags kube $(TESTFLAGS) ./pkg/test/controllertest
	CGO_ENABLED=1 go run ./pkg/test/testreport -race -count=1 -timeout 30m -tags kube -run '^TestKube' $(TESTFLAGS) ./pkg/test/e2e

test-ginkgo: root go flannel-deps kube-deps ## node-ipam-controller's own tests of ClusterCIDRs, with tulle-controller in its place (GINKGO_SOURCE=/a/git/repository)
	CGO_ENABLED=1 go run ./pkg/test/testreport -race -count=1 -timeout 15m -tags kube,ginkgo -run '^TestGinkgo' $(TESTFLAGS) ./pkg/test/controllertest

test-kubelet: root go kubelet-deps ## DaemonSet and controller on real nodes, in place of flannel and of kubeadm's node IPAM, and back (a quarter of an hour)
	CGO_ENABLED=1 go run ./pkg/test/testreport -count=1 -timeout 60m -tags kubelet $(TESTFLAGS) ./pkg/test/kubelettest

test-aws: go moto ## clients of AWS, and the tests' own AWS, against moto_server
	CGO_ENABLED=1 go run ./pkg/test/testreport -race -count=1 -timeout 15m -tags aws -run '^TestMoto' $(TESTFLAGS) ./pkg/cloud/aws/... ./pkg/awsdeploy

# Only this target compiles Microsoft's fakes, a quarter of a million lines. vet reads them as compiled for the test: with -race.
test-azure: go ## the client of Azure against Microsoft's official fakes, which it compiles (two minutes)
	CGO_ENABLED=1 go vet -race -tags azure ./pkg/cloud/azure
	CGO_ENABLED=1 go run ./pkg/test/testreport -race -count=1 -timeout 15m -tags azure -run '^TestMicrosoft' $(TESTFLAGS) ./pkg/cloud/azure

test-ccm: root go kube-deps ## a cluster from the AWS cloud controller manager to tulle-controller, and back (CCM_SOURCE=/a/git/repository)
	CGO_ENABLED=1 go run ./pkg/test/testreport -race -count=1 -timeout 20m -tags kube,ccm -run '^TestCCM' $(TESTFLAGS) ./pkg/test/controllertest

test-capi: root go kube-deps ## Clusters of Cluster API's core, which it builds, on networks of tulle-controller (CAPI_SOURCE=/a/git/repository, CAPA_SOURCE=/another)
	CGO_ENABLED=1 go run ./pkg/test/testreport -race -count=1 -timeout 20m -tags kube,capi -run '^TestCore' $(TESTFLAGS) ./pkg/test/controllertest

test-cloud: root go deps ## hosts in a VPC with the backend cloud, and tulle-controller for them, from etcd alone
	CGO_ENABLED=1 go run ./pkg/test/testreport -race -count=1 -timeout 20m -tags cloud -run '^TestCloud' $(TESTFLAGS) ./pkg/test/e2e

soak: root go deps ## 20 nodes under random faults for SOAK (30m)
	CGO_ENABLED=1 go test -count=1 -timeout 24h -run '^TestSoak$$' ./pkg/test/e2e -v -soak $(SOAK)

soak-udp: root go deps ## tulled moves packets of the backend udp at full load for SOAK_TUNNEL (10m) while peers come and go
	CGO_ENABLED=1 go test -count=1 -timeout 24h -run '^TestUDPSoak$$' ./pkg/test/e2e -v -tunnel-soak $(SOAK_TUNNEL)

soak-wireguard: root go deps ## the same for WireGuard in user space
	CGO_ENABLED=1 go test -count=1 -timeout 24h -run '^TestWireGuardSoak$$' ./pkg/test/e2e -v -tunnel-soak $(SOAK_TUNNEL)

soak-controller: go ## tulle-controller killed KILLS times (500) while Nodes come and go
	go test -count=1 -timeout 1h -run '^TestKillsLoseAndDoubleNothing$$' ./pkg/cmd/tulle-controller -v -kills $(KILLS)

soak-cloud: go ## two tulle-controllers on a fake AWS under random faults for SOAK_CLOUD (1h), from SEED (0 is another each time)
	go test -count=1 -timeout 24h -run '^TestSoakCloud$$' ./pkg/cmd/tulle-controller -v -soak $(SOAK_CLOUD) -soak-seed $(SEED)

# dist/release/build.sh also compiles with -trimpath and without cgo, so most dependencies are
# compiled once for both. Not grpc: it has a tag there.
lint: export GOFLAGS := -trimpath
lint: export CGO_ENABLED := 0
lint: go ## gofmt, go vet, staticcheck, a tidy go.mod
	@files=$$(gofmt -l .) && { [ -z "$$files" ] || { echo "not as gofmt writes it, run gofmt -w on:" $$files >&2; exit 1; }; }
	go vet -tags vm,rotation,packages ./...
	go vet -tags kube,flannel,ginkgo ./pkg/kube ./pkg/election ./subnet/kube ./pkg/test/kubetest ./pkg/test/controllertest ./dist/kubernetes ./pkg/test/e2e
	go vet -tags vm,flannel ./pkg/test/wireguardtest
	go vet -tags kubelet ./pkg/test/kubelettest/...
	go vet -tags aws ./pkg/cloud/aws/... ./pkg/awsdeploy
	go vet -tags kube,ccm,capi ./pkg/test/controllertest
	go vet -tags cloud ./pkg/test/e2e
	go tool staticcheck -tags vm,rotation,packages ./...
	go tool staticcheck -tags kube,flannel,ginkgo ./pkg/kube ./pkg/election ./subnet/kube ./pkg/test/kubetest ./pkg/test/controllertest ./dist/kubernetes ./pkg/test/e2e
	go tool staticcheck -tags vm,flannel ./pkg/test/wireguardtest
	go tool staticcheck -tags kubelet ./pkg/test/kubelettest/...
	go tool staticcheck -tags aws ./pkg/cloud/aws/... ./pkg/awsdeploy
	go tool staticcheck -tags kube,ccm,capi ./pkg/test/controllertest
	go tool staticcheck -tags cloud ./pkg/test/e2e
	go mod tidy -diff
	check=$$(go tool -n staticcheck) && cd pkg/test/gcewitness && go vet ./... && $$check ./... && go mod tidy -diff

# Of each module, what it names itself and the modules of its tools; Go itself is the toolchain's matter.
outdated: go ## the modules that have a newer release, in every go.mod
	@for m in $$(git ls-files '*go.mod'); do ( \
		cd $$(dirname $$m) && \
		{ go list -m -f '{{if not (or .Main .Indirect)}}{{.Path}}{{end}}' all; go list -f '{{with .Module}}{{.Path}}{{end}}' tool; } | sort -u | \
		xargs go list -m -u -f "{{with .Update}}$$m: {{$$.Path}} {{$$.Version}} -> {{.Version}}{{end}}" | grep . || true \
	) || exit 1; done

fuzz: go ## every fuzz target for FUZZTIME (20s) each
	@list=$$(go test -list '^Fuzz' $(PACKAGES)) || { echo "$$list"; exit 1; }; \
	targets=$$(echo "$$list" | awk '/^Fuzz/ { name[n++] = $$1 } /^ok/ { for (i = 0; i < n; i++) print name[i], $$2; n = 0 }'); \
	[ -n "$$targets" ] || { echo "no fuzz target in $(PACKAGES)" >&2; exit 1; }; \
	echo "$$targets" | while read -r name package; do \
		echo "$$package $$name"; \
		go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$package" </dev/null || exit 1; \
	done

bench: root go deps ## a node against iproute2 in batch mode, and whole daemons, as tables (PEERS=1000,10000)
	go test -c -o bin/network.test ./network
	cd network && ../bin/network.test -test.run '^TestBench$$' -test.timeout 60m -peers $(PEERS)
	go test -c -o bin/e2e.test ./pkg/test/e2e
	cd pkg/test/e2e && ../../../bin/e2e.test -test.run '^TestScale$$' -test.timeout 60m -peers $(LEASES)
	cd pkg/test/e2e && ../../../bin/e2e.test -test.run '^TestBenchRush$$' -test.timeout 60m -nodes $(NODES)
	go test -run '^TestStopUnderLoad$$' -v -timeout 30m ./pkg/cmd/tulle-etcd -stops 200
	go test -run "^$$" -bench . -benchmem ./subnet ./pkg/netstate ./pkg/ipam
	go test -run "^$$" -bench . -benchtime 12x ./pkg/firewall/nft ./pkg/firewall/iptables
	cd pkg/test/e2e && ../../../bin/e2e.test -test.run '^TestIdle$$' -test.timeout 60m -idle 5m -peers 1000,10000
	cd pkg/test/e2e && ../../../bin/e2e.test -test.run '^TestSteady$$' -test.v -steady 5m

bench-flannel: root go flannel-deps ## whole daemons from their start, tulled and flanneld turn by turn
	go test -c -o bin/e2e.test ./pkg/test/e2e
	cd pkg/test/e2e && ../../../bin/e2e.test -test.run '^TestScale$$' -test.timeout 120m -flannel -peers $(LEASES)

bench-traffic: root go flannel-deps ## what tunnels carry between two hosts, with the processors that takes: udp, flanneld's udp, vxlan, ipip, host-gw and no network in turns (TRAFFIC=1s, ROUNDS=3)
	go test -c -o bin/e2e.test ./pkg/test/e2e
	cd pkg/test/e2e && ../../../bin/e2e.test -test.run '^TestBenchTraffic$$' -test.timeout 60m -traffic $(TRAFFIC) -traffic-rounds $(ROUNDS)

bench-wireguard: root go deps ## WireGuard in user space between two hosts, beside wireguard-go by itself (TRAFFIC=1s, ROUNDS=3)
	go test -c -o bin/e2e.test ./pkg/test/e2e
	cd pkg/test/e2e && ../../../bin/e2e.test -test.run '^TestBenchWireGuard$$' -test.timeout 60m -wireguard $(TRAFFIC) -traffic-rounds $(ROUNDS)

bench-heal: root go deps ## what is lost while another program keeps changing things, by thing and rate (HEAL='route deleted', HEAL_SLOW=1m)
	go test -c -o bin/e2e.test ./pkg/test/e2e
	cd pkg/test/e2e && ../../../bin/e2e.test -test.run '^TestBenchHeal$$' -test.timeout 60m -test.parallel 64 -heal '$(HEAL)' -heal-slow $(HEAL_SLOW)

bench-kube: root go flannel-deps ## whole daemons among many Nodes of a real control plane, tulled and flanneld turn by turn
	go test -tags kube -c -o bin/e2e.test ./pkg/test/e2e
	cd pkg/test/e2e && ../../../bin/e2e.test -test.run '^TestKubeScale$$' -test.timeout 120m -flannel -rounds 3 -beats 1m -peers $(KUBE_NODES)

bench-controller: root go kube-deps ## podCIDRs for many Nodes at once and for one more, tulle-controller and kube-controller-manager in turns (NEW_NODES=500, IMAGES=5: as new machines register)
	go test -tags kube -c -o bin/controllertest.test ./pkg/test/controllertest
	cd pkg/test/controllertest && ../../../bin/controllertest.test -test.run '^TestBenchController$$' -test.timeout 120m -nodes $(NEW_NODES) -images $(IMAGES)

bench-cloud: root go kube-deps ## Nodes of AWS initialised and routed, calls and memory, beside the AWS cloud controller manager (CCM_SOURCE=/a/git/repository, CLOUD_NODES=50, CLOUD_IDLE=2m, CLOUD_LATENCY=100ms, CLOUD_ROUTES=false, IMAGES=5: as new machines register)
	go test -tags kube -c -o bin/controllertest.test ./pkg/test/controllertest
	cd pkg/test/controllertest && ../../../bin/controllertest.test -test.run '^TestBenchCloud$$' -test.timeout 120m -bench-cloud $(CLOUD_NODES) -bench-idle $(CLOUD_IDLE) -bench-latency $(CLOUD_LATENCY) -bench-routes=$(CLOUD_ROUTES) -images $(IMAGES)

bench-appear: root go kube-deps ## how long APPEAR (500) Nodes of AWS that appear at once wait to be initialised by a program that runs (CCM_SOURCE=/a/git/repository, CLOUD_LATENCY=100ms, IMAGES=5)
	go test -tags kube -c -o bin/controllertest.test ./pkg/test/controllertest
	cd pkg/test/controllertest && ../../../bin/controllertest.test -test.run '^TestBenchAppear$$' -test.timeout 60m -bench-appear $(APPEAR) -bench-latency $(CLOUD_LATENCY) -images $(IMAGES)

bench-network: root go kube-deps ## a network on AWS in three zones: time, calls and memory, beside Cluster API's AWS provider (CAPA_SOURCE=/a/git/repository, NETWORK_LATENCY=100ms)
	go test -tags kube -c -o bin/controllertest.test ./pkg/test/controllertest
	cd pkg/test/controllertest && ../../../bin/controllertest.test -test.run '^TestBenchNetwork$$' -test.timeout 60m -bench-network -bench-network-latency $(NETWORK_LATENCY)

release: go ## archives for all kinds of processors, in bin/release (VERSION=v1.2.3, ARCHES='amd64 arm64')
	VERSION=$(VERSION) dist/release/build.sh bin/release

release-check: go ## the same, built a second time elsewhere with nothing kept, and compared
	VERSION=$(VERSION) dist/release/check.sh bin/release

image: release ## the container image of the release, as an OCI layout in bin/image
	rm -rf bin/image
	GOTOOLCHAIN=go$$(sed -n 's/^go //p' go.mod) SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} \
		go run ./dist/image -release bin/release -to bin/image -version $(VERSION) -revision $$(git rev-parse HEAD)

manifests: ## tulle.yaml and tulle-controller.yaml in dist/kubernetes, of the chart
	@mkdir -p bin
	dist/kubernetes/manifest.sh tulle >bin/tulle.yaml
	dist/kubernetes/manifest.sh tulle-controller >bin/tulle-controller.yaml
	mv bin/tulle.yaml bin/tulle-controller.yaml dist/kubernetes

deps: ## install what the tests need and is missing
	@$(call install,$(TEST_DEPS))

demo-deps: ## install what demo needs and is missing
	@$(call install,$(DEMO_DEPS))

flannel-deps: deps ## install what test-flannel needs and is missing
	@$(call install,$(FLANNEL_DEPS))

kube-deps: deps ## install what test-kube needs and is missing
	@$(call install,$(KUBE_DEPS))

kubelet-deps: flannel-deps ## install what test-kubelet needs and is missing
	@$(call install,$(KUBELET_DEPS))

packages-deps: ## install what test-packages needs and is missing
	@$(call install,$(PACKAGES_DEPS))

vm-deps: ## install what test-vm needs and is missing
	@$(call install,$(VM_DEPS))

moto:
	@command -v moto_server >/dev/null || { echo "this needs moto_server, an emulator of AWS: pip install 'moto[server]'" >&2; exit 1; }

clean: ## remove what was built
	rm -rf bin

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

root:
	@[ "$$(id -u)" = 0 ] || { echo "this makes network namespaces: run it as root" >&2; exit 1; }

go:
	@want=$$(sed -n 's/^go //p' go.mod); has=$$(command -v go >/dev/null && go env GOVERSION | sed 's/^[^0-9]*//; s/[^0-9.].*//'); \
	[ "$$(printf '%s\n' "$$want" "$$has" | sort -V | head -n 1)" = "$$want" ] || { \
		echo "this needs Go $$want and found $${has:-none}: install it from https://go.dev/dl (Go 1.21 or later downloads it by itself, unless GOTOOLCHAIN forbids that)" >&2; exit 1; }

# install puts on the machine the packages of those pairs whose command or file is not there. None of their
# services is started, neither now nor at the next boot.
define install
missing=; for pair in $(1); do \
	want=$${pair%%:*}; \
	case $$want in /*) [ -e $$want ] ;; *) command -v $$want >/dev/null ;; esac || missing="$$missing $${pair#*:}"; \
done; \
[ -z "$$missing" ] || { \
	echo "installing$$missing"; \
	command -v apt-get >/dev/null || { echo "there is no apt-get here: install$$missing by hand" >&2; exit 1; }; \
	policy=/usr/sbin/policy-rc.d; \
	[ -e $$policy ] || { trap "rm -f $$policy" EXIT; printf '#!/bin/sh\nexit 101\n' >$$policy && chmod +x $$policy; }; \
	apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $$missing >/dev/null || exit 1; \
	for services in docker.io:docker.socket,docker.service,containerd.service firewalld:firewalld.service ufw:ufw.service prometheus:prometheus.service etcd-server:etcd.service; do \
		case "$$missing " in *" $${services%%:*} "*) systemctl -q disable $$(echo $${services#*:} | tr , ' ') 2>/dev/null || :; esac; \
	done; \
}
endef
