# The image of a broker, one shard of a cluster: `docker build --file deploy/docker/broker.Dockerfile --tag ternmq-broker .`
# Settings are TERNMQ_* variables or options; `docker run --rm ternmq-broker broker --help` lists them.
# The stage `build` is the same in the images of broker and proxy and in ../../Dockerfile, so it is built once for all.
ARG PYTHON_IMAGE=python:3.11-slim

FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
COPY deploy/docker/environment.sh pyproject.toml ./
RUN sh environment.sh requirements server speedups otel && sh environment.sh compiler
COPY deploy/docker/minimal_root.py ./
RUN python3 minimal_root.py /image && mkdir -m 700 /data
# What tools/compiled left, if it was there: it is compiled here unless that fits.
COPY README.md hatch_build.py build/compiled/*.zip ./
COPY protos protos
COPY common common
COPY rpc rpc
COPY runtime runtime
COPY registry registry
COPY console console
COPY broker broker
COPY proxy proxy
COPY clients/python clients/python
COPY command command
RUN TERNMQ_COMPILE=1 TERNMQ_COMPILED=/src sh environment.sh project

FROM scratch
COPY --from=build /image /
COPY --from=build /opt/ternmq /opt/ternmq
ENV PATH=/opt/ternmq/bin:/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
COPY --from=build --chown=10001:10001 /data /var/lib/ternmq
# A number, so that Kubernetes can see that it isn't root.
USER 10001
WORKDIR /var/lib/ternmq
VOLUME /var/lib/ternmq
EXPOSE 10911 8082
# A third of the processor time that `urllib` takes to be imported.
HEALTHCHECK --interval=5s --timeout=5s --start-period=60s --retries=3 CMD ["python3", "-IS", "-c", \
    "import socket; s = socket.create_connection(('127.0.0.1', 8082), 4); s.sendall(b'GET /health/ready HTTP/1.0\\r\\n\\r\\n'); raise SystemExit(b' 200 ' not in s.recv(64))"]
ENTRYPOINT ["ternmq"]
CMD ["broker", "--storage", "0.0.0.0:10911", "--http", "0.0.0.0:8082", "--data-dir", "/var/lib/ternmq"]
