#!/bin/sh
# spark master|worker [OPTION...]: one process of a standalone cluster, in the foreground.
set -eu
role=${1:?master or worker}
shift
case $role in
master) class=org.apache.spark.deploy.master.Master ;;
worker) class=org.apache.spark.deploy.worker.Worker ;;
*) exec "$role" "$@" ;;
esac
exec "$SPARK_HOME/bin/spark-class" "$class" "$@"
