#!/bin/sh
# The Python of Spark's workers: PySpark from where it is installed, rather than from the zip that Spark names first. A
# zip has no byte code, so each worker would compile what it imports of it. See worker_python.py.
PYTHONPATH=${PYTHONPATH#"$SPARK_HOME"/python/lib/pyspark.zip:}
PYTHONPATH=${PYTHONPATH#"$SPARK_HOME"/python/lib/py4j-*-src.zip:}
export PYTHONPATH
exec "$PYSPARK_TERNMQ_PYTHON" "$@"
