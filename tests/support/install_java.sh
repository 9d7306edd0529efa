#!/usr/bin/env bash
# Java 17 or newer, for Spark; nothing happens where it is.
set -euo pipefail

found=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p') || true
if [[ ${found:-0} -lt 17 ]]; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends default-jre-headless
fi
java -version 2>&1 | head -1
