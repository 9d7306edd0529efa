#!/usr/bin/env bash
# Gets `prometheus` and `promtool` for the tests, from Debian's package, unless they are there. Safe to run again.
# The package is unpacked and not installed: it would start a server of its own.
set -euo pipefail

CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/ternmq/prometheus

fail() { echo "install_prometheus.sh: $1" >&2; exit 1; }

if { command -v prometheus && command -v promtool; } >/dev/null || [ -x "$CACHE/promtool" ]; then
    exit 0
fi
command -v apt-get >/dev/null || fail "Prometheus is missing, and there is no apt-get to get it with"
echo "install_prometheus.sh: getting prometheus"
work=$(mktemp --directory --tmpdir ternmq-prometheus.XXXXXX)
trap 'rm -rf "$work"' EXIT
cd "$work"
# Only root may renew apt's lists; those that are there may do.
[ "$(id --user)" != 0 ] || apt-get update --quiet --quiet || fail "apt-get can't renew its lists"
apt-get download --quiet --quiet -o APT::Sandbox::User=root prometheus || fail "apt-get can't download prometheus"
dpkg-deb --extract prometheus_*.deb root
mkdir -p "$CACHE"
# The last one is what the test above looks for.
mv root/usr/bin/prometheus "$CACHE/"
mv root/usr/bin/promtool "$CACHE/"
