# The image of Spark, master and worker of a standalone cluster:
# `docker build --file deploy/docker/spark.Dockerfile --tag ternmq-spark .`
# `docker run ternmq-spark master` or `docker run ternmq-spark worker spark://spark-master:7077`, with Spark's own options.
# It is large by nature: 200 MB are Java, 400 MB are Spark.
ARG PYTHON_IMAGE=python:3.11-slim

FROM ${PYTHON_IMAGE} AS build
ARG PYSPARK_VERSION=4.0.1
RUN python3 -m venv /opt/pip && python3 -m venv --without-pip /opt/spark
ENV PIP_PYTHON=/opt/spark/bin/python3 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
RUN /opt/pip/bin/pip install "pyspark==${PYSPARK_VERSION}" \
    && home=$(/opt/spark/bin/python3 -c 'import pyspark; print(pyspark.__path__[0])') \
    # A shell for Scala, examples, tests and another language's package: nothing of it is for a cluster of Python programs.
    && rm -rf "$home/jars/connect-repl" "$home/data" "$home/examples" "$home/tests" "$home/licenses" \
    && ln -s "$home" /opt/spark/home

FROM ${PYTHON_IMAGE}
# Java's package makes links for manual pages, whose folder slim images don't have.
RUN mkdir -p /usr/share/man/man1 \
    && apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && apt-get clean && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --user-group --home-dir /var/lib/spark --shell /usr/sbin/nologin spark \
    && install --directory --owner=spark --group=spark /var/lib/spark
COPY --from=build /opt/spark /opt/spark
COPY deploy/docker/spark.sh /usr/local/bin/spark
# Its folders of work and logs are in the volume, so that the rest can be read-only.
ENV PATH=/opt/spark/bin:/opt/spark/home/bin:$PATH SPARK_HOME=/opt/spark/home PYSPARK_PYTHON=/opt/spark/bin/python3 \
    SPARK_WORKER_DIR=/var/lib/spark/work SPARK_LOCAL_DIRS=/var/lib/spark/local
USER 10001
WORKDIR /var/lib/spark
VOLUME /var/lib/spark
EXPOSE 7077 8080 8081
ENTRYPOINT ["spark"]
CMD ["master"]
