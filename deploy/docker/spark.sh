#!/bin/sh
# spark master|worker [OPTION...]     one process of a standalone cluster, in the foreground
# spark pipeline NAME [OPTION...]     `ternmq pipeline`, whose driver is this process, on the cluster $SPARK_MASTER_URL
#                                     if that is set and no --master is given
# spark driver|executor [OPTION...]   one pod of an application on Kubernetes, as Spark starts it there
# spark PROGRAM [ARGUMENT...]         anything else that the image has, such as spark-submit
set -eu
role=${1:?master, worker, pipeline, driver, executor or a program}
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
driver)
    exec "$SPARK_HOME/bin/spark-submit" --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
        --deploy-mode client "$@"
    ;;
executor)
    # What Spark says is in variables, and Java's own options in one each: SPARK_JAVA_OPT_0 and so on.
    set --
    number=0
    while eval "option=\${SPARK_JAVA_OPT_$number:-}" && [ -n "$option" ]; do
        set -- "$@" "$option"
        number=$((number + 1))
    done
    exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
        -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}$SPARK_HOME/jars/*" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
*) exec "$role" "$@" ;;
esac
