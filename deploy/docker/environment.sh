#!/bin/sh
# environment.sh requirements EXTRA... | project: fills /opt/ternmq, the Python environment that the images share.
#
# What the code stands on changes more rarely than the code: two calls make two layers of it.
set -eu

export PIP_PYTHON=/opt/ternmq/bin/python3 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
pip=/opt/pip/bin/pip

requirements() {
    # Two environments: pip is in the one that stays behind.
    python3 -m venv /opt/pip
    python3 -m venv --without-pip /opt/ternmq
    python3 - "$@" >/tmp/requirements.txt <<'PYTHON'
import sys, tomllib
with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)["project"]
print(*project["dependencies"], sep="\n")
for extra in sys.argv[1:]:
    print(*project["optional-dependencies"][extra], sep="\n")
PYTHON
    $pip install --requirement /tmp/requirements.txt
    # SQLAlchemy's own test suite: 2 MB that nothing of ours imports.
    rm -rf /opt/ternmq/lib/python3*/site-packages/sqlalchemy/testing
}

project() {
    $pip install --no-deps .
}

"$@"
