#!/usr/bin/env bash
# Installs what the interop tests build and run with, on Debian, and prints what is there. Safe to run again.
#   Java 17 and Maven 3.6     Apache RocketMQ as the peer, the Java client
#   Go 1.21                   the Go client wants 1.24, which an older Go fetches by itself (GOTOOLCHAIN=auto)
#   Node.js 18.17 and npm 8   the Node.js client
#   Rust 1.78                 the Rust client; its Cargo.lock has format 4
set -euo pipefail

# at_least WANTED FOUND: whether version FOUND is WANTED or newer.
at_least() {
    [ "$(printf '%s\n%s\n' "$1" "$2" | sort --version-sort | head --lines=1)" = "$1" ]
}

# first_version: the first version number in the input; nothing if there is none.
first_version() {
    grep --only-matching --extended-regexp '[0-9]+(\.[0-9]+)+' | head --lines=1 || true
}

# version COMMAND...: the version number that the command prints; nothing if there is no such command.
version() {
    command -v "$1" >/dev/null 2>&1 || return 0
    { "$@" 2>&1 || true; } | first_version
}

# too_old WANTED COMMAND...: whether the command is missing or older.
too_old() {
    local wanted=$1 found
    shift
    found=$(version "$@")
    [ -z "$found" ] || ! at_least "$wanted" "$found"
}

# offered WANTED PACKAGE...: the first of the Debian packages that is new enough here; the first if none is.
offered() {
    local wanted=$1 package
    shift
    for package in "$@"; do
        if at_least "$wanted" "$(apt-cache policy "$package" | grep Candidate: | first_version)"; then
            echo "$package"
            return
        fi
    done
    echo "$1"
}

missing=()

check_all() {
    missing=()
    ! too_old 17 javac -version || missing+=(java)
    ! too_old 3.6 mvn --version || missing+=(mvn)
    ! too_old 1.21 go version || missing+=(go)
    ! too_old 18.17 node --version || missing+=(node)
    ! too_old 8 npm --version || missing+=(npm)
    ! too_old 1.78 cargo --version || missing+=(cargo)
}

install_missing() {
    local as_root=() packages=() tool
    [ "$(id --user)" = 0 ] || as_root=(sudo)
    "${as_root[@]}" apt-get update --quiet
    for tool in "${missing[@]}"; do
        case $tool in
            java) packages+=(default-jdk-headless) ;;
            mvn) packages+=(maven) ;;
            go) packages+=("$(offered 1.21 golang-go golang-1.24-go golang-1.23-go golang-1.22-go)") ;;
            node) packages+=(nodejs) ;;
            npm) packages+=(npm) ;;
            # In Debian 12, cargo is of 2022; cargo-web is the one that browsers are built with.
            cargo) packages+=("$(offered 1.78 cargo cargo-web)") ;;
        esac
    done
    echo "installing: ${packages[*]}"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends \
        "${packages[@]}"
}

check_all
if [ ${#missing[@]} -gt 0 ]; then
    install_missing
    hash -r
    check_all
fi

printf '%-6s %s\n' \
    java "$(version javac -version)" mvn "$(version mvn --version)" go "$(version go version)" \
    node "$(version node --version)" npm "$(version npm --version)" cargo "$(version cargo --version)"

if [ ${#missing[@]} -gt 0 ]; then
    echo "still missing or too old: ${missing[*]}" >&2
    exit 1
fi
