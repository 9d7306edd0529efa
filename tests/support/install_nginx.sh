#!/usr/bin/env bash
# Gets `nginx` for the tests, from Debian's package, unless it is there. Safe to run again.
# The package is unpacked and not installed: it would start a server of its own.
set -euo pipefail

CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/ternmq/nginx

fail() { echo "install_nginx.sh: $1" >&2; exit 1; }

if command -v nginx >/dev/null || [ -x "$CACHE/nginx" ]; then
    exit 0
fi
command -v apt-get >/dev/null || fail "nginx is missing, and there is no apt-get to get it with"
echo "install_nginx.sh: getting nginx"
work=$(mktemp --directory --tmpdir ternmq-nginx.XXXXXX)
trap 'rm -rf "$work"' EXIT
cd "$work"
# Only root may renew apt's lists; those that are there may do.
[ "$(id --user)" != 0 ] || apt-get update --quiet --quiet || fail "apt-get can't renew its lists"
apt-get download --quiet --quiet -o APT::Sandbox::User=root nginx || fail "apt-get can't download nginx"
dpkg-deb --extract nginx_*.deb root
mkdir -p "$CACHE"
mv root/usr/sbin/nginx "$CACHE/"
