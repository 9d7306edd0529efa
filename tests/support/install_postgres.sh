#!/usr/bin/env bash
# Installs PostgreSQL's programs for the tests, from Debian's package, unless they are there.
# No server is started by it: tests start their own.
set -euo pipefail

if compgen -G '/usr/lib/postgresql/*/bin/initdb' > /dev/null || command -v initdb > /dev/null; then
    exit 0
fi
fail() { echo "install_postgres.sh: $1" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail "PostgreSQL is missing, and only root can install it: apt-get install postgresql"
command -v apt-get > /dev/null || fail "PostgreSQL is missing, and there is no apt-get to install it with"
echo "install_postgres.sh: installing postgresql"
# The package would make and start a server of its own.
export DEBIAN_FRONTEND=noninteractive
mkdir -p /etc/postgresql-common
[ -e /etc/postgresql-common/createcluster.conf ] \
    || echo "create_main_cluster = false" > /etc/postgresql-common/createcluster.conf
{ apt-get update -qq && apt-get install -y -qq --no-install-recommends postgresql; } >&2 \
    || fail "apt-get can't install postgresql"
