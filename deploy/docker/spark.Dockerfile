# The image of Spark with TernMQ's data source and pipelines: master and worker of a standalone cluster, and the driver.
# `docker build --file deploy/docker/spark.Dockerfile --tag ternmq-spark .`, then
# `docker run ternmq-spark master` or `... worker spark://spark-master:7077`, with Spark's own options, or
# `docker run ternmq-spark pipeline lake --topics orders --out /lake`, which is `ternmq pipeline`.
# Driver and workers have the same Python and the same packages, as what they send to each other asks for.
# It is large by nature: 200 MB are Java, 400 MB Spark, 130 MB Arrow.
ARG PYTHON_IMAGE=python:3.11-slim

# In a stage of its own: Spark (a download of 450 MB) is installed again when this list changes, and not with every line
# of pyproject.toml.
FROM ${PYTHON_IMAGE} AS requirements
WORKDIR /src
COPY deploy/docker/environment.sh pyproject.toml ./
RUN sh environment.sh requested spark avro >/requirements.txt

FROM ${PYTHON_IMAGE} AS spark
WORKDIR /src
COPY deploy/docker/environment.sh ./
COPY --from=requirements /requirements.txt ./
RUN sh environment.sh install requirements.txt
# Nothing of it is for a cluster of Python programs: a shell for Scala, examples, sources, tests, and Arrow's own RPC.
# Spark puts the zips of PySpark and Py4J in front of what is installed, and a zip has no byte code: each worker would take
# three times as long to start.
RUN cd /opt/ternmq/lib/python3*/site-packages \
    && rm -rf pyspark/jars/connect-repl pyspark/data pyspark/examples pyspark/tests pyspark/licenses \
        pyspark/python/lib/*.zip pyarrow/include pyarrow/src pyarrow/tests pyarrow/*flight* \
    && ln -s "$PWD/pyspark" /opt/ternmq/spark

FROM spark AS project
COPY pyproject.toml README.md hatch_build.py ./
COPY protos protos
COPY common common
COPY rpc rpc
COPY runtime runtime
COPY clients/python clients/python
COPY command command
COPY spark spark
RUN TERNMQ_COMPILE=0 sh environment.sh project --root /project

FROM ${PYTHON_IMAGE}
# Java's package makes links for manual pages, whose folder slim images don't have. The default is 17 in Debian 12 and
# 21 in Debian 13; Spark takes both.
RUN mkdir -p /usr/share/man/man1 \
    && apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends default-jre-headless \
    && apt-get clean && rm -rf /var/lib/apt/lists/*
RUN groupadd --system --gid 10001 spark \
    && useradd --system --uid 10001 --gid spark --home-dir /var/lib/spark --shell /usr/sbin/nologin spark \
    && install --directory --owner=spark --group=spark /var/lib/spark /lake
# Python's images come without the byte code of its own library, and workers can't write it there.
RUN python3 -m compileall -q -x '/(site-packages|dist-packages|idlelib|lib2to3|turtledemo|test|tests)/' \
    "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"
COPY --from=spark /opt/ternmq /opt/ternmq
COPY --from=project /project /
COPY deploy/docker/spark.sh /usr/local/bin/spark
COPY deploy/spark/pipeline.py /opt/ternmq/
# Its folders of work and logs are in the volume, so that the rest can be read-only.
ENV PATH=/opt/ternmq/bin:/opt/ternmq/spark/bin:$PATH LANG=C.UTF-8 SPARK_HOME=/opt/ternmq/spark \
    PYSPARK_PYTHON=/opt/ternmq/bin/python3 SPARK_WORKER_DIR=/var/lib/spark/work SPARK_LOCAL_DIRS=/var/lib/spark/local
# A number, so that Kubernetes can see that it isn't root.
USER 10001
WORKDIR /var/lib/spark
# A lake is where pipelines write, the same place for driver and workers.
VOLUME /var/lib/spark /lake
EXPOSE 7077 8080 8081
ENTRYPOINT ["spark"]
CMD ["master"]
