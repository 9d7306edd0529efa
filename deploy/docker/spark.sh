#!/bin/sh
# spark master|worker [OPTION...]     one process of a standalone cluster, in the foreground
# spark pipeline NAME [OPTION...]     `ternmq pipeline`, whose driver is this process, on the cluster $SPARK_MASTER_URL
#                                     if that is set and no --master is given
# spark PROGRAM [ARGUMENT...]         anything else that the image has, such as spark-submit
set -eu
role=${1:?master, worker, pipeline or a program}
shift
case $role in
master) exec "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.master.Master "$@" ;;
worker) exec "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.worker.Worker "$@" ;;
pipeline)
    case ${1:-} in
    '' | -*) exec ternmq pipeline "$@" ;;
    esac
    name=$1
    shift
    # In front of the caller's words: of two options the last one counts.
    exec ternmq pipeline "$name" ${SPARK_MASTER_URL:+--master "$SPARK_MASTER_URL"} "$@"
    ;;
*) exec "$role" "$@" ;;
esac
