# Stands in for the official image of HAProxy where no registry of images can be reached: Debian's package, same user, same
# place of the configuration.
FROM python:3.11-slim
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends haproxy \
    && apt-get clean && rm -rf /var/lib/apt/lists/* /etc/haproxy \
    && install --directory /usr/local/etc/haproxy
USER haproxy
STOPSIGNAL SIGUSR1
ENTRYPOINT ["haproxy"]
CMD ["-W", "-db", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]
