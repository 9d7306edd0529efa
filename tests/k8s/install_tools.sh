#!/usr/bin/env bash
# Gets what the tests of k8s/ need besides Python packages. Safe to run again.
#   kustomize        where neither kubectl nor kustomize is new enough; built from its Go module
#   helm             where there is none that is new enough, in the same way
#   definitions      what fields a ServiceMonitor and a PrometheusRule have, from the Go module of the Prometheus operator
# A Go that is missing is installed (Debian, root). Debian 12's is of 2022, so KUSTOMIZE and HELM are the newest that it can
# build.
set -euo pipefail

CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/ternmq/k8s
KUSTOMIZE=v5.3.0
HELM=v3.12.3
OPERATOR=v0.94.0
DEFINITIONS=(servicemonitors prometheusrules)

fail() { echo "install_tools.sh: $*" >&2; exit 1; }

# recent COMMAND...: whether the command is there and says that it is kustomize 5 or newer.
recent() {
    command -v "$1" >/dev/null && "$@" 2>&1 | grep --quiet --extended-regexp '(^|Kustomize Version: )v([5-9]|[1-9][0-9])\.'
}

need_go() {
    ! command -v go >/dev/null || return 0
    command -v apt-get >/dev/null || fail "Go is missing, and there is no apt-get to install it with"
    local as_root=()
    [ "$(id --user)" = 0 ] || as_root=(sudo)
    "${as_root[@]}" apt-get update --quiet --quiet
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --quiet --no-install-recommends golang-go
}

install_kustomize() {
    need_go
    env GOFLAGS= CGO_ENABLED=0 GOBIN="$CACHE" go install "sigs.k8s.io/kustomize/kustomize/v5@$KUSTOMIZE"
}

install_helm() {
    need_go
    env GOFLAGS="${GOFLAGS:-}" CGO_ENABLED=0 GOBIN="$CACHE" go install "helm.sh/helm/v3/cmd/helm@$HELM"
}

install_definitions() {
    need_go
    local folder each
    # Outside of any module, whose go.mod would have a say.
    folder=$(cd "$CACHE" && GOFLAGS='' go mod download -json "github.com/prometheus-operator/prometheus-operator@$OPERATOR" \
        | python3 -c 'import json, sys; print(json.load(sys.stdin)["Dir"])')
    for each in "${DEFINITIONS[@]}"; do
        install --mode=644 "$folder/example/prometheus-operator-crd/monitoring.coreos.com_$each.yaml" "$CACHE/$each.partial"
        mv "$CACHE/$each.partial" "$CACHE/$each-$OPERATOR.yaml"
    done
}

mkdir -p "$CACHE"
if ! recent kustomize version && ! recent kubectl version --client && [ ! -x "$CACHE/kustomize" ]; then
    install_kustomize
fi
if ! { command -v helm >/dev/null && helm version --short | grep --quiet '^v3\.'; } && [ ! -x "$CACHE/helm" ]; then
    install_helm
fi
for each in "${DEFINITIONS[@]}"; do
    [ -f "$CACHE/$each-$OPERATOR.yaml" ] || { install_definitions; break; }
done
