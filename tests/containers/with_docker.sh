#!/usr/bin/env bash
# with_docker.sh COMMAND...: run a command with a Docker engine, and end with its exit code.
#
# An engine that answers already is used as it is. Where there is none, one is installed (Debian, root) and runs as long
# as the command does; its images stay in the user's cache folder, so that only the first build is slow. It gets along
# without a registry of images: those that ours begin with, and those that the compose file names, are made from Debian's
# packages under the same names (stand_ins/). Without a way to get an engine this fails and says why.
set -euo pipefail

CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/ternmq
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
COMPOSE_FILE=$HERE/../../docker-compose.yml
BASE_IMAGE=python:3.11-slim
STAND_INS=(postgres haproxy prometheus)
START_TIMEOUT_S=60

say() { echo "with_docker.sh: $*" >&2; }
fail() { say "no Docker engine: $*"; exit 1; }

answers() { docker version >/dev/null 2>&1; }

# need PACKAGE=COMMAND...: install the packages whose command is missing.
need() {
    local each packages=()
    for each in "$@"; do
        command -v "${each#*=}" >/dev/null || packages+=("${each%%=*}")
    done
    [ ${#packages[@]} -gt 0 ] || return 0
    command -v apt-get >/dev/null || fail "${packages[*]} missing, and there is no apt-get to install it with"
    say "installing: ${packages[*]}"
    if ! apt_install "${packages[@]}" >"$work/apt.log" 2>&1; then
        cat "$work/apt.log" >&2
        fail "${packages[*]} can't be installed; apt-get's message is above"
    fi
}

apt_install() {
    apt-get update --quiet --quiet \
        && DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --quiet --no-install-recommends "$@"
}

start_engine() {
    [ "$(id --user)" = 0 ] || fail "none answers, and only root can start one; start it, or run this as root"
    need docker.io=dockerd iptables=iptables
    need docker-cli=docker  # from Debian 13 on the client is a package of its own
    need docker-compose=docker-compose
    mkdir -p "$CACHE"
    # Two engines can't share a data folder: the second run waits for the end of the first.
    exec 9>"$CACHE/docker.lock"
    flock 9
    drop_networks
    export DOCKER_HOST=unix://$work/docker.sock
    dockerd --host "$DOCKER_HOST" --data-root "$CACHE/docker" --exec-root "$work/exec" --pidfile "$work/pid" \
        >"$work/dockerd.log" 2>&1 9>&- &
    engine=$!
    local deadline=$((SECONDS + START_TIMEOUT_S))
    until answers; do
        if ! kill -0 "$engine" 2>/dev/null || [ $SECONDS -ge $deadline ]; then
            tail --lines=30 "$work/dockerd.log" >&2
            fail "dockerd did not come up; the end of its log is above"
        fi
        sleep 0.2
    done
    drop_leftovers
}

# Network namespaces that engines of earlier runs left mounted, as one that was killed does. Their interfaces are still on
# the bridge and answer for the first addresses that this engine gives to its containers: connections are refused then.
drop_networks() {
    local mounted
    while read -r mounted; do
        say "unmounting the network of an engine that is gone: $mounted"
        umount "$mounted" || fail "$mounted can't be unmounted, and its address would be given to a container"
    done < <(awk '$5 ~ /\/ternmq-docker\.[^\/]+\/exec\/netns\// { print $5 }' /proc/self/mountinfo)
}

# What a run that was killed left behind (its containers may have started again with the engine), and images that no
# build of the last day needed.
drop_leftovers() {
    docker ps --all --quiet | xargs --no-run-if-empty docker rm --force --volumes
    docker network prune --force
    docker volume ls --quiet | xargs --no-run-if-empty docker volume rm
    docker image prune --force --filter until=24h
} >/dev/null

# The image that our own begins with comes from Debian's packages: this engine may have no way to a registry of images.
# With it come the machine's certificates, by which pip knows the package index.
make_base_image() {
    ! docker image inspect "$BASE_IMAGE" >/dev/null 2>&1 || return 0
    need debootstrap=debootstrap
    say "making the image $BASE_IMAGE from Debian's packages"
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm "$work/root" \
        >"$work/debootstrap.log" 2>&1 || { tail --lines=30 "$work/debootstrap.log" >&2; fail "debootstrap failed"; }
    cp --dereference /etc/ssl/certs/ca-certificates.crt "$work/root/etc/ssl/certs/ca-certificates.crt"
    # What slim images do without.
    rm -rf "$work"/root/usr/share/{doc,info,locale,man} "$work"/root/var/lib/apt/lists/* "$work"/root/var/cache/apt/*.bin \
        "$work"/root/var/cache/apt/archives/*.deb
    tar --directory "$work/root" --create . | docker import - "$BASE_IMAGE" >/dev/null
}

# Built each time, since what has not changed is taken from the engine's cache.
make_stand_ins() {
    local each image
    for each in "${STAND_INS[@]}"; do
        image=$(grep --only-matching --extended-regexp "image: ([a-z]+/)?$each:\S+" "$COMPOSE_FILE") \
            || fail "$COMPOSE_FILE names no image of $each"
        docker build --tag "${image#image: }" --file "$HERE/stand_ins/$each.Dockerfile" "$HERE/stand_ins" \
            >"$work/$each.log" 2>&1 || { tail --lines=30 "$work/$each.log" >&2; fail "no stand-in for ${image#image: }"; }
    done
}

clean_up() {
    if [ -n "$engine" ]; then
        kill "$engine" 2>/dev/null || true
        wait "$engine" 2>/dev/null || true
        umount "$work"/exec/netns/* 2>/dev/null || true  # an engine that was killed leaves these
    fi
    rm -rf "$work" || true
}

engine=
work=$(mktemp --directory --tmpdir ternmq-docker.XXXXXX)
trap clean_up EXIT
if ! answers; then
    start_engine
    make_base_image
    make_stand_ins
fi
"$@"
