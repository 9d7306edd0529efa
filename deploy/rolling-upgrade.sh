#!/usr/bin/env bash
# Rolling upgrade of the stack of docker-compose.yml: one container after the other, each when the one before is healthy.
# Called where `docker compose` is, with the same COMPOSE_FILE, COMPOSE_PROFILES and COMPOSE_PROJECT_NAME.
#
#   1. builds the images, and brings the registry's tables to what they expect
#   2. brokers: new messages go to the others first (drain), then the container is recreated, then it takes messages again
#   3. replicas of a shard: followers first and the leader last, each when all are in sync
#   4. proxies, each when the load balancer has the one before back
#
# What has not changed is left alone. It stops at the first that does not get healthy, says so, and has touched none of those
# after it; when that one is mended, the same call goes on. PostgreSQL, the load balancer and all else stay as they are.
# Where access control is on, it acts as $TERNMQ_ACCESS_KEY with $TERNMQ_SECRET_KEY, or else as the first user.
set -euo pipefail

TIMEOUT_S=300
LOOK_INTERVAL_S=1
build=true
all=false

usage() {
    cat <<'TEXT'
usage: deploy/rolling-upgrade.sh [--all] [--no-build] [--timeout SECONDS]

  --all              also what has not changed: a rolling restart
  --no-build         with the images that there are
  --timeout SECONDS  how long each container may take to get healthy, 300
TEXT
}

say() { printf 'rolling-upgrade.sh: %s\n' "$*" >&2; }
fail() { say "stopped: $*"; exit 1; }

while [ $# -gt 0 ]; do
    case $1 in
        --all) all=true ;;
        --no-build) build=false ;;
        --timeout) [[ ${2:-} =~ ^[0-9]+$ ]] || fail "--timeout wants seconds"; TIMEOUT_S=$2; shift ;;
        -h | --help) usage; exit ;;
        *) usage >&2; exit 2 ;;
    esac
    shift
done

if docker compose version >/dev/null 2>&1; then
    COMPOSE=(docker compose)
elif command -v docker-compose >/dev/null; then
    COMPOSE=(docker-compose)
else
    fail "there is neither docker compose nor docker-compose"
fi
# Compose reads standard input where it has no need to.
compose() { "${COMPOSE[@]}" "$@" </dev/null; }

# --- what there is

declare -A container_of   # by service
declare -A variables_of   # the container's, by service
services=()
project=

look() {
    local id service
    services=()
    project=${project:-$(first_project)}
    while read -r id service; do
        container_of[$service]=$id
        variables_of[$service]=$(docker inspect --format '{{range .Config.Env}}{{println .}}{{end}}' "$id")
        services+=("$service")
    done < <(docker ps --all --filter "label=com.docker.compose.project=$project" \
        --filter label=com.docker.compose.oneoff=False --format '{{.ID}} {{.Label "com.docker.compose.service"}}' | sort --key=2)
}

first_project() {
    local id
    id=$(compose ps --quiet | head -n 1)
    [ -n "$id" ] || fail "no container of this project is there; start it with ${COMPOSE[*]} up"
    docker inspect --format '{{index .Config.Labels "com.docker.compose.project"}}' "$id"
}

# variable SERVICE NAME
variable() { sed -n "s/^$2=//p" <<<"${variables_of[$1]}" | head -n 1; }

# health SERVICE: healthy, starting, unhealthy; or what became of the container: exited, restarting, gone.
health() {
    docker inspect --format '{{if .State.Health}}{{if .State.Running}}{{.State.Health.Status}}{{else}}{{.State.Status}}{{end}}{{else}}{{.State.Status}}{{end}}' \
        "${container_of[$1]}" 2>/dev/null || echo gone
}

changed() {
    ! $all || return 0
    local id=${container_of[$1]} image hash
    image=$(docker inspect --format '{{.Config.Image}}' "$id")
    [ "$(docker inspect --format '{{.Image}}' "$id")" = "$(docker image inspect --format '{{.Id}}' "$image")" ] || return 0
    hash=$(compose config --hash "$1" | awk '{print $NF}') || fail "$1 is no service here; is COMPOSE_PROFILES as it was started with?"
    [ "$(docker inspect --format '{{index .Config.Labels "com.docker.compose.config-hash"}}' "$id")" != "$hash" ]
}

# --- queries of the cluster

# ternmq PROXY WORD...: the command, in that proxy's container and of that proxy.
ternmq() {
    local proxy=$1 each given=()
    shift
    for each in TERNMQ_ACCESS_KEY TERNMQ_SECRET_KEY; do
        [ -z "${!each:-}" ] || given+=(--env "$each")
    done
    # shellcheck disable=SC2016 # these are the container's
    docker exec "${given[@]}" "${container_of[$proxy]}" sh -euc '
        if [ "${TERNMQ_ACCESS_CONTROL:-false}" = true ]; then
            export TERNMQ_ACCESS_KEY="${TERNMQ_ACCESS_KEY:-$TERNMQ_INIT_USER}"
            export TERNMQ_SECRET_KEY="${TERNMQ_SECRET_KEY:-$(cat "$TERNMQ_INIT_SECRET_FILE")}"
            export TERNMQ_CA="${TERNMQ_TLS_CERT%/*}/ca.pem" TERNMQ_ENDPOINT="$TERNMQ_PROXY_NAME:8081"
        fi
        exec ternmq "$@"' sh "$@"
}

a_proxy() {
    local each
    for each in "${proxies[@]}"; do
        [ "$(health "$each")" != healthy ] || { echo "$each"; return; }
    done
    fail "no proxy is healthy, and without one the state of the brokers is unknown"
}

# query PROGRAM PROXY WORD...: print what the Python PROGRAM prints of the command's JSON, its variable `it`; it runs in the
# proxy's container, as the host may lack Python.
query() {
    local program=$1 proxy=$2 json
    shift
    json=$(ternmq "$@" --json) || { say "proxy $proxy does not answer: ternmq ${*:2}"; return 1; }
    docker exec --interactive "${container_of[$proxy]}" python3 -c "import json, sys; it = json.load(sys.stdin); $program" <<<"$json"
}

# brokers_by PROXY CONDITION: the names of the brokers that meet the condition.
brokers_by() { query "print(*(each['name'] for each in it if $2))" "$1" broker list; }

# lacks SHARD: what of it is not in sync; nothing if all is well.
lacks() {
    query "
here = [each['replica'] for each in it['replicas'] if each['live'] and each['in_sync']]
print('' if it['live'] and len(here) >= it['replicas_wanted'] else f'in sync are {len(here)} of {it[\"replicas_wanted\"]}: {here}')
" "$(a_proxy)" shard show "$1"
}

# --- waiting

# until_none PROBLEM-COMMAND...: wait until it prints nothing; else print its last problem, and fail.
until_none() {
    local deadline=$((SECONDS + TIMEOUT_S)) problem
    while problem=$("$@" 2>/dev/null) || problem=${problem:-no proxy answers}; [ -n "$problem" ]; do
        [ $SECONDS -lt $deadline ] || { echo "$problem"; return 1; }
        sleep "$LOOK_INTERVAL_S"
    done
}

ill() { local state; state=$(health "$1"); [ "$state" = healthy ] || echo "it is $state"; }
# unaware_proxies BROKER: the proxies that would still send new messages to it.
unaware_proxies() {
    local each
    for each in "${proxies[@]}"; do
        [ "$(health "$each")" = healthy ] || continue
        [[ " $(brokers_by "$each" "each['draining']") " == *" $1 "* ]] || echo "$each does not know it"
    done
}
not_balanced() {
    # shellcheck disable=SC2016
    docker exec "${container_of[$1]}" python3 -c '
import sys, urllib.request
text = urllib.request.urlopen("http://load-balancer:8404/metrics", timeout=4).read().decode()
up = "haproxy_server_status{proxy=\"proxies\",server=\"" + sys.argv[1] + "\",state=\"UP\"} 1"
print("" if up in text else "the load balancer does not have it back")' "$1"
}

# --- one container

# renew SERVICE: recreate its container, and wait until it is healthy.
renew() {
    local force=() problem
    ! $all || force=(--force-recreate)
    say "$1: recreated"
    compose up --detach --no-deps --no-build "${force[@]}" "$1" >/dev/null 2>&1 || fail "$1 could not be recreated: ${COMPOSE[*]} up $1 says why"
    look
    if ! problem=$(until_none ill "$1"); then
        docker logs --tail 15 "${container_of[$1]}" >&2 || true
        fail "$1 is not healthy after $TIMEOUT_S s: $problem. The end of its log is above. Not touched: ${left[*]:-none}. When it is mended, the same call goes on"
    fi
}

resume_hint() { echo "let it take messages again when it is healthy: ${COMPOSE[*]} exec $(a_proxy) ternmq broker resume $1"; }

roll_broker() {
    local service=$1 name proxy others was
    name=$(variable "$service" TERNMQ_BROKER_NAME)
    proxy=$(a_proxy)
    was=$(brokers_by "$proxy" "each['name'] == '$name' and each['draining']")
    others=$(brokers_by "$proxy" "each['name'] != '$name' and each['live'] and not each['draining']")
    # Without another one sends would be refused, and not only wait.
    if [ -z "$was" ] && [ -n "$others" ] && [ "$(health "$service")" = healthy ]; then
        say "$service: new messages go to others"
        ternmq "$proxy" broker drain "$name" --json >/dev/null
        drained=$name
        until_none unaware_proxies "$name" >/dev/null || fail "$name drains, and not every proxy knows it; $(resume_hint "$name")"
    fi
    renew "$service"
    if [ -n "$drained" ]; then
        ternmq "$(a_proxy)" broker resume "$name" --json >/dev/null
        drained=
    fi
}

roll_replica() {
    local service=$1 shard problem
    shard=$(variable "$service" TERNMQ_BROKER_NAME)
    if [ "$(health "$service")" = healthy ]; then
        problem=$(until_none lacks "$shard") || fail "shard $shard has not all replicas in sync ($problem), so $service is left as it is"
    fi
    renew "$service"
    problem=$(until_none lacks "$shard") || fail "$service is healthy, and shard $shard has not all replicas in sync again: $problem"
}

roll_proxy() {
    local problem
    renew "$1"
    [ -n "${container_of[load-balancer]:-}" ] || return 0
    problem=$(until_none not_balanced "$1") || fail "$1 is healthy, but $problem"
}

# --- all of them

leader_last() {
    local service leaders
    leaders=$(query "print(*(f\"{each['shard']}/{each['leader']}\" for each in it))" "$(a_proxy)" shard list)
    for service in "$@"; do
        [[ " $leaders " == *" $(variable "$service" TERNMQ_BROKER_NAME)/$(variable "$service" TERNMQ_REPLICA_NAME) "* ]] \
            && echo "1 $service" || echo "0 $service"
    done | sort | cut -d ' ' -f 2
}

# Those that are not healthy first: nothing is lost by them, and with them the cluster is whole again.
ill_first() { local each; for each in "$@"; do [ "$(health "$each")" = healthy ] && echo "1 $each" || echo "0 $each"; done | sort | cut -d ' ' -f 2; }

at_end() {
    [ -z "$drained" ] || say "broker $drained takes no new messages now; $(resume_hint "$drained")"
}

drained=
brokers=() replicas=() proxies=() left=()
look
for service in "${services[@]}"; do
    if [ -n "$(variable "$service" TERNMQ_PROXY_NAME)" ]; then
        proxies+=("$service")
    elif [ -n "$(variable "$service" TERNMQ_REPLICAS)" ]; then
        replicas+=("$service")
    elif [ -n "$(variable "$service" TERNMQ_BROKER_NAME)" ]; then
        brokers+=("$service")
    fi
done
[ ${#proxies[@]} -gt 0 ] || fail "this project has no proxies"
trap at_end EXIT

if $build; then
    say "building the images"
    compose build --quiet "${brokers[@]}" "${replicas[@]}" "${proxies[@]}" || fail "the images can't be built; nothing was touched"
fi
say "the registry's tables"
compose run --rm --no-deps -T registry-migration >&2 || fail "the registry can't be migrated; nothing was touched"

mapfile -t ordered < <(
    ill_first "${brokers[@]}"
    [ ${#replicas[@]} -eq 0 ] || leader_last "${replicas[@]}"
    ill_first "${proxies[@]}"
)
for service in "${ordered[@]}"; do
    if changed "$service" || [ "$(health "$service")" != healthy ]; then left+=("$service"); fi
done
[ ${#left[@]} -gt 0 ] || { say "nothing has changed"; exit 0; }
say "in this order: ${left[*]}"
while [ ${#left[@]} -gt 0 ]; do
    service=${left[0]} left=("${left[@]:1}")
    case " ${brokers[*]} | ${replicas[*]} | ${proxies[*]} " in
        *" $service "*"|"*"|"*) roll_broker "$service" ;;
        *"|"*" $service "*"|"*) roll_replica "$service" ;;
        *) roll_proxy "$service" ;;
    esac
done
say "done: all are healthy"
