#!/usr/bin/env bash
# Gets a browser for the console's tests, Debian's Chromium, and axe-core from npm, unless they are there. Safe to run again.
set -euo pipefail

AXE=4.14.1
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/ternmq/axe-core-$AXE

fail() { echo "install_browser.sh: $1" >&2; exit 1; }

missing=()
command -v chromium >/dev/null || missing+=(chromium)
command -v npm >/dev/null || [ -f "$CACHE/axe.min.js" ] || missing+=(npm)
if [ ${#missing[@]} != 0 ]; then
    command -v apt-get >/dev/null || fail "there is no ${missing[*]}, and no apt-get to get them with"
    [ "$(id --user)" = 0 ] || fail "${missing[*]} are missing, and only root can install them"
    echo "install_browser.sh: installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update --quiet --quiet
    apt-get install --yes --quiet --quiet --no-install-recommends "${missing[@]}" >/dev/null ||
        fail "apt-get can't install ${missing[*]}"
fi
if [ ! -f "$CACHE/axe.min.js" ]; then
    work=$(mktemp --directory --tmpdir ternmq-axe.XXXXXX)
    trap 'rm -rf "$work"' EXIT
    (cd "$work" && npm pack --silent "axe-core@$AXE" >/dev/null && tar --extract --gzip --file ./*.tgz) ||
        fail "npm can't get axe-core"
    mkdir -p "$CACHE"
    mv "$work/package/axe.min.js" "$CACHE/"
fi
