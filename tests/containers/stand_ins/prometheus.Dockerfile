# Stands in for Prometheus' own image where no registry of images can be reached: Debian's package, its user a number.
FROM python:3.11-slim
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends prometheus wget \
    && apt-get clean && rm -rf /var/lib/apt/lists/* \
    && install --directory --owner=nobody --group=nogroup /prometheus
USER nobody
WORKDIR /prometheus
VOLUME /prometheus
EXPOSE 9090
ENTRYPOINT ["prometheus"]
CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]
