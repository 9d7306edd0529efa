"""How to get packages that are missing: TernMQ is in no package index, so it is installed from a checkout of it."""

# What the extra `server` brings, by the names that imports have.
SERVER_EXTRA_MODULES = frozenset(
    {
        "alembic",
        "cryptography",
        "grpc_health",
        "grpc_reflection",
        "h11",
        "jinja2",
        "lark",
        "msgspec",
        "opentelemetry",
        "prometheus_client",
        "psycopg",
        "sqlalchemy",
        "starlette",
        "tenacity",
    }
)

COMPILED_HINT = (
    "in a checkout of TernMQ, run TERNMQ_COMPILE=1 pip install '.[server,uvloop]' (needs a C compiler and Python's "
    "headers, and takes minutes), or install a wheel of tools/wheels; the images have it"
)
"""How to get the compiled form, which takes 0.6 of the CPU for a send."""


def install_hint(extras: str) -> str:
    """The end of an error about a package that one of the `extras` of pyproject.toml brings."""
    return f"in a checkout of TernMQ, run pip install '.[{extras}]'"


def missing_extra(error: ModuleNotFoundError, who: str, extra: str) -> ModuleNotFoundError:
    """What to raise instead, if it is a package of `extra` that `who` misses; an error of our own stays what it is."""
    missing = (error.name or "").partition(".")[0]
    if missing.startswith("ternmq"):
        return error
    return ModuleNotFoundError(f"{who} needs the package {missing}: {install_hint(extra)}", name=error.name)
