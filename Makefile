# weir: a home gateway from one file.
#
#   make demo    builds, and rehearses examples/gateway.hcl: about a minute and a half once built; no root
#   make test    everything; installs what it lacks (as root). ONLY=PATTERN runs a part
#
# Go 1.26 or newer builds it. Debian 12's own is older; get one from https://go.dev/dl/ :
#   tar -C /usr/local -xzf go1.26.*.linux-amd64.tar.gz && export PATH=/usr/local/go/bin:$PATH

GO      ?= go
VERSION ?= 0.1.0+$(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)
LDFLAGS  = -s -w -X weir/internal/cli.version=$(VERSION)
SOURCES  = $(shell find cmd internal -name '*.go' -not -name '*_test.go') go.mod go.sum
ONLY    ?= .

# The tools are run at these versions and are no part of weir's own modules.
GOLANGCI    = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
NFPM        = github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.9.0
VULNDB      = golang.org/x/vulndb@v0.0.0-20261105234957-e22db6528018

# Packages that are pure, but for tests that need namespaces and skip without: tested on other processors too.
PURE = ./internal/config ./internal/state ./internal/desired ./internal/ruleset ./internal/plan ./internal/failover \
       ./internal/ether ./internal/bare ./internal/wan/dhcp4 ./internal/wan/dhcp6 ./internal/dhcpd

export PATH := $(PATH):/usr/sbin:/sbin
export CGO_ENABLED = 0

.DEFAULT_GOAL = build
.PHONY: build demo test soak test-vm test-power race lint generate generated cross mips vuln deb bench clean tools-go tools-nft

build: bin/weir

bin/weir: $(SOURCES) | tools-go
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $@ ./cmd/weir

demo: bin/weir | tools-nft
	bin/weir rehearse examples/gateway.hcl

test: bin/weir
	test/install
	test/run '$(ONLY)'

# Anything happens to a house for so many seconds, and the daemon is killed so often, at any moment (docs/reliability.md).
# 500 kills take about a quarter of an hour. SEED=N has the same happen again.
soak: SECONDS ?= 300
soak: KILLS ?= 500
soak:
	test/soak $(SECONDS) $(KILLS) $(SEED)

# What this machine's kernel lacks, on Debian's own under QEMU.
test-vm: bin/weir
	test/install
	test/vm-run

# The power of a virtual machine is cut while it writes to a disk of its own: ROUNDS of them, and one that must lose something.
test-power:
	test/power $(ROUNDS)

# The race detector needs cgo. It has to see each path, not each round. Not where the drills and cases have times to keep:
# cli's scripts run the whole daemon under it; nor where a share of the packets is to fall into nft's work, which it does not slow.
race:
	WEIR_BIN=$$PWD/bin/weir GO='$(GO)' test/race -run '$(ONLY)' -skip '^TestNoInstantOfAHole$$' \
	  $$($(GO) list ./... | grep -v -e internal/rehearse -e internal/cases -e internal/ruleset)

lint:
	$(GO) vet ./...
	$(GO) run $(GOLANGCI) run ./...

# The fast path's programs (clang, llvm, libbpf-dev): what is made from their source is what is committed.
generate:
	$(GO) generate ./internal/fastpath

generated: generate
	@git diff --exit-code -- internal/fastpath || { echo "what make generate makes is not what is committed"; exit 1; }

cross:
	GOARCH=arm64 $(GO) build -o /dev/null ./cmd/weir
	GOARCH=mips64 $(GO) build -o /dev/null ./cmd/weir
	GOARCH=mips64 $(GO) vet ./...

# The pure packages on a big-endian processor. make cross vets for it.
mips:
	GOARCH=mips64 WEIR_REQUIRE= $(GO) test -short -vet=off -timeout 20m -exec qemu-mips64 $(PURE)

# The vulnerability database as a module: it needs no other host than Go's own. What a module brings fails; what stands
# in the Go that builds is printed, for a newer Go to mend.
vuln:
	$(GO) mod download -x $(VULNDB) 2>/dev/null
	$(GO) run $(subst @,/cmd/indexdb@,$(VULNDB)) -vulns "$$($(GO) env GOMODCACHE)/$(VULNDB)/data/osv" -out dist/vulndb
	test/vuln $(GO) run $(GOVULNCHECK) -db "file://$$PWD/dist/vulndb" ./...

deb: bin/weir
	mkdir -p dist/completion
	bin/weir completion bash > dist/completion/weir.bash
	bin/weir completion zsh > dist/completion/_weir
	bin/weir completion fish > dist/completion/weir.fish
	GOARCH="$$($(GO) env GOARCH)" VERSION='$(VERSION)' $(GO) run $(NFPM) package -f packaging/nfpm.yaml -p deb -t dist/

# Beside a plain nftables router, in one run; then what a turn of the loop and reading a file take; then BIND, beside a
# configuration written by hand.
#   make bench ONLY=fastpath    the fast path alone, beside none, peers and bare redirects (as root; iptables, ethtool, iperf3)
bench: bin/weir | tools-nft
ifeq ($(ONLY),fastpath)
	$(GO) run ./test/bench -only-fastpath -for 200ms bin/weir
else
	$(GO) run ./test/bench bin/weir
	$(GO) test -run '^$$' -bench . ./internal/...
	WEIR_BENCH=1 $(GO) test -count=1 -run '^TestBesideByHand$$' -v ./internal/named
	WEIR_BENCH=1 $(GO) test -count=1 -run '^TestFirstNameAfterAnOutage$$' -v ./internal/cases
endif

clean:
	rm -rf bin dist

tools-go:
	@$(GO) version >/dev/null 2>&1 || { echo "weir is built with Go 1.26 or newer, and there is no '$(GO)' here. See the top of the Makefile."; exit 1; }
	@v=$$($(GO) env GOVERSION); case $$v in go1.2[6-9]*|go1.[3-9][0-9]*|go[2-9]*|devel*) ;; *) \
	  echo "weir needs Go 1.26 or newer, this is $$v. See the top of the Makefile."; exit 1;; esac

tools-nft:
	@command -v nft >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get install -y --no-install-recommends nftables; } || \
	  { echo "weir needs nftables: apt-get install nftables (as root)"; exit 1; }
