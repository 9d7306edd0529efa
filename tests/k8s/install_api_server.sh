#!/usr/bin/env bash
# Gets what tests/k8s/api_server.py needs: Debian's etcd, unpacked and not installed, since the package would start it; and
# kube-apiserver, built from its Go module, in which each staging path is replaced by the release of the same number. That takes
# half an hour on two busy cores, and a Go of 1.22 or newer. Safe to run again.
set -euo pipefail

CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/ternmq/k8s
# The oldest release that k8s/README.md promises.
KUBERNETES=30.14

fail() { echo "install_api_server.sh: $*" >&2; exit 1; }

install_etcd() {
    command -v apt-get >/dev/null || fail "etcd is missing, and there is no apt-get to get it with"
    # Only root may renew apt's lists; those that are there may do.
    [ "$(id --user)" != 0 ] || apt-get update --quiet --quiet || fail "apt-get can't renew its lists"
    (cd "$work" && apt-get download --quiet --quiet -o APT::Sandbox::User=root etcd-server) || fail "apt-get can't download etcd-server"
    dpkg-deb --extract "$work"/etcd-server_*.deb "$work/root"
    mv "$work/root/usr/bin/etcd" "$CACHE/etcd"
}

install_api_server() {
    command -v go >/dev/null && [[ $(go version) =~ go1\.(2[2-9]|[3-9][0-9]) ]] || fail "a Go of 1.22 or newer is needed"
    mkdir "$work/module"
    cd "$work/module"
    local module=k8s.io/kubernetes@v1.$KUBERNETES known each
    known=$(GOFLAGS='' go mod download -json "$module" | python3 -c 'import json, sys; print(json.load(sys.stdin)["GoMod"])')
    {
        printf 'module api-server\n\ngo 1.22.0\n\nrequire k8s.io/kubernetes v1.%s\n\nreplace (\n' "$KUBERNETES"
        for each in $(sed -n 's|^\s*\(k8s\.io/\S*\) => \./staging.*|\1|p' "$known"); do
            printf '\t%s => %s v0.%s\n' "$each" "$each" "$KUBERNETES"
        done
        printf ')\n'
    } >go.mod
    printf '//go:build tools\n\npackage tools\n\nimport _ "k8s.io/kubernetes/cmd/kube-apiserver"\n' >tools.go
    go mod tidy
    # Its own build tells it which release it is; Helm asks.
    local version=k8s.io/component-base/version
    CGO_ENABLED=0 go build -o "$CACHE/kube-apiserver.partial" \
        -ldflags "-X $version.gitVersion=v1.$KUBERNETES -X $version.gitMajor=1 -X $version.gitMinor=${KUBERNETES%.*}" \
        k8s.io/kubernetes/cmd/kube-apiserver
    mv "$CACHE/kube-apiserver.partial" "$CACHE/kube-apiserver-1.$KUBERNETES"
}

mkdir -p "$CACHE"
work=$(mktemp --directory --tmpdir ternmq-api-server.XXXXXX)
trap 'rm -rf "$work"' EXIT
[ -x "$CACHE/etcd" ] || install_etcd
[ -x "$CACHE/kube-apiserver-1.$KUBERNETES" ] || install_api_server
