#!/bin/sh
# environment.sh requirements EXTRA... | compiler | project [OPTION...]: fills /opt/ternmq, the Python environment of the images.
# Dependencies change more rarely than the code: two calls make two layers.
set -eu

export PIP_PYTHON=/opt/ternmq/bin/python3 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
pip=/opt/pip/bin/pip

# requested EXTRA...: what the project and these extras stand on, a line each.
requested() {
    python3 - "$@" <<'PYTHON'
import sys, tomllib
with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)["project"]
print(*project["dependencies"], sep="\n")
for extra in sys.argv[1:]:
    wanted = project["optional-dependencies"][extra]
    # Extras of its own are named apart: it is in no index.
    print(*(one for one in wanted if not one.startswith(f"{project['name']}[")), sep="\n")
PYTHON
}

install() {
    # Two environments: pip is in the one that stays behind.
    python3 -m venv /opt/pip
    python3 -m venv --without-pip /opt/ternmq
    $pip install --requirement "$1"
}

requirements() {
    requested "$@" >/tmp/requirements.txt
    install /tmp/requirements.txt
    # Test suites that nothing of ours imports: 2 MB of SQLAlchemy's, some of the others.
    for package in sqlalchemy alembic mako; do
        rm -rf /opt/ternmq/lib/python3*/site-packages/$package/testing
    done
    # Of mypyc's library, what nothing of ours imports: 1.5 MB.
    for module in vecs internal random base64 threading time; do
        rm -f /opt/ternmq/lib/python3*/site-packages/librt/$module.cpython-*.so
    done
    # Its second backend, which only PyPy takes.
    rm -f /opt/ternmq/lib/python3*/site-packages/zstandard/*cffi*
}

# What the hot path is compiled with, see hatch_build.py; nothing of it is in the image.
compiler() {
    headers=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')
    if ! command -v cc >/dev/null || [ ! -f "$headers/Python.h" ]; then
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc libc6-dev \
            $([ -f "$headers/Python.h" ] || echo python3-dev)
    fi
}

# project [OPTION...]: with options of pip, such as another root.
project() {
    $pip install --no-deps "$@" .
    # Types and what extension modules were made of: 1 MB that is read when programs are checked or built.
    find /opt/ternmq \( -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' \) -delete
    # Symbols of extension modules, which only debuggers read: 23 MB, most of it of uvloop, SQLAlchemy and cryptography.
    if command -v strip >/dev/null; then
        find /opt/ternmq \( -name '*.cpython-*.so' -o -name '*.abi3.so' \) -exec strip --strip-unneeded {} +
    fi
}

"$@"
