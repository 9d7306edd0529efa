"""How to get missing packages: TernMQ is in no package index, so it is installed from a checkout."""

# The packages of the extra `server`, by their import names.
SERVER_EXTRA_MODULES = frozenset(
    {
        "alembic",
        "cryptography",
        "grpc_health",
        "grpc_reflection",
        "h11",
        "jinja2",
        "lark",
        "lz4",
        "msgspec",
        "opentelemetry",
        "prometheus_client",
        "psycopg",
        "sqlalchemy",
        "starlette",
        "tenacity",
        "zstandard",
    }
)

COMPILED_HINT = (
    "in a checkout of TernMQ, run TERNMQ_COMPILE=1 pip install '.[server,speedups]' (needs a C compiler and Python's "
    "headers, and takes minutes), or install a wheel of tools/wheels; the images have it"
)
"""How to get the compiled form, which takes 0.6 of the CPU for a send."""


def install_hint(extras: str) -> str:
    """The end of an error about a missing package that one of the `extras` of pyproject.toml installs."""
    return f"in a checkout of TernMQ, run pip install '.[{extras}]'"


def missing_extra_error(error: ModuleNotFoundError, user: str, extra: str) -> ModuleNotFoundError:
    """Return the error to raise instead, if `user` misses a package of `extra`; other errors stay as they are."""
    missing = (error.name or "").partition(".")[0]
    if missing.startswith("ternmq"):
        return error
    return ModuleNotFoundError(f"{user} needs the package {missing}: {install_hint(extra)}", name=error.name)
