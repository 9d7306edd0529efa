# Stands in for the official image of PostgreSQL where no registry of images can be reached: Debian's package, started by
# what the compose file relies on (POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB, PGDATA, the user postgres).
FROM python:3.11-slim
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends postgresql \
    && apt-get clean && rm -rf /var/lib/apt/lists/* /var/lib/postgresql/* \
    && ln -s /usr/lib/postgresql/*/bin /usr/local/postgresql \
    && install --directory --owner=postgres --group=postgres --mode=1777 /var/lib/postgresql/data \
    && install --directory --owner=postgres --group=postgres --mode=3777 /run/postgresql
ENV PATH=/usr/local/postgresql:$PATH PGDATA=/var/lib/postgresql/data
COPY postgres.sh /usr/local/bin/docker-entrypoint.sh
VOLUME /var/lib/postgresql/data
STOPSIGNAL SIGINT
EXPOSE 5432
ENTRYPOINT ["docker-entrypoint.sh"]
CMD ["postgres"]
