# The image of TernMQ: `docker build -t ternmq .`, then `docker run -p 8081:8081 -p 8082:8082 -v ternmq:/var/lib/ternmq ternmq`.
# Settings are TERNMQ_* variables or options after `up`; `docker run --rm ternmq config` lists them.
# python3 is looked up by name: Debian has it in /usr/bin, Docker's official image in /usr/local/bin.
ARG PYTHON_IMAGE=python:3.11-slim

FROM ${PYTHON_IMAGE} AS build
# Two environments: pip is in the one that stays behind.
RUN python3 -m venv /opt/pip && python3 -m venv --without-pip /opt/ternmq
ENV PIP_PYTHON=/opt/ternmq/bin/python3 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
# What the code stands on changes more rarely than the code, so it is a layer of its own.
COPY pyproject.toml ./
RUN python3 -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
        print("\n".join(project["dependencies"] + project["optional-dependencies"]["server"]))' > requirements.txt \
    && /opt/pip/bin/pip install --requirement requirements.txt
COPY README.md ./
COPY protos protos
COPY common common
COPY registry registry
COPY broker broker
COPY proxy proxy
COPY clients/python clients/python
RUN /opt/pip/bin/pip install --no-deps .

FROM ${PYTHON_IMAGE}
# A number, so that Kubernetes can see that it isn't root.
RUN useradd --system --uid 10001 --user-group --home-dir /var/lib/ternmq --shell /usr/sbin/nologin ternmq \
    && install --directory --owner=ternmq --group=ternmq /var/lib/ternmq
COPY --from=build /opt/ternmq /opt/ternmq
ENV PATH=/opt/ternmq/bin:$PATH
USER 10001
WORKDIR /var/lib/ternmq
VOLUME /var/lib/ternmq
EXPOSE 8081 8082
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 CMD ["python3", "-c", \
    "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8082/health/ready', timeout=4)"]
ENTRYPOINT ["ternmq"]
CMD ["up", "--grpc", "0.0.0.0:8081", "--http", "0.0.0.0:8082", "--data-dir", "/var/lib/ternmq"]
