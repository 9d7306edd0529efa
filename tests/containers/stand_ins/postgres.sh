#!/bin/sh
# The first start makes the database; the official image asks for a password too, and lets nobody in without it.
set -eu
: "${POSTGRES_PASSWORD:?is needed}"
user=${POSTGRES_USER:-postgres}
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    printf '%s\n' "$POSTGRES_PASSWORD" >/tmp/password
    initdb --username="$user" --encoding=UTF8 --locale=C.UTF-8 --pwfile=/tmp/password \
        --auth-host=scram-sha-256 --auth-local=trust --no-sync >/dev/null
    rm /tmp/password
    echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
    pg_ctl --wait --options="-c listen_addresses=" start >/dev/null
    [ "${POSTGRES_DB:-$user}" = postgres ] || createdb --username="$user" "${POSTGRES_DB:-$user}"
    pg_ctl --wait --mode=fast stop >/dev/null
fi
exec "$@" -c "listen_addresses=*"
