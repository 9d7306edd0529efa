"""The tiers: what each runs, what must be installed or built before, and how much of the machine it takes.

Plain     commands with `python` run on the editable install of .venv
Compiled  commands with `COMPILED` in place of it run on what a wheel has, with the hot path compiled (tools/compiled)
Cores     the average number of busy cores when the tier has the machine to itself, as the table of a run shows it
Memory    the most that its processes hold together, rounded up
"""

from __future__ import annotations

from dataclasses import dataclass

COMPILED = "{compiled}"
TIMINGS = "{timings}"
SEED = "{seed}"

CODE = (
    *("protos/ternmq_protos", "common", "rpc", "runtime", "registry", "console", "broker", "proxy", "clients/python"),
    *("command", "spark", "hatch_build.py", "tools", "tests", "benchmarks", "clients/examples/python", "deploy"),
)
TYPED = (
    *("protos/ternmq_protos", "common/ternmq_common", "rpc/ternmq_rpc", "runtime/ternmq_runtime"),
    *("registry/ternmq_registry", "console/ternmq_console", "broker/ternmq_broker", "proxy/ternmq_proxy"),
    *("clients/python/ternmq", "command/ternmq_command", "spark/pyspark_ternmq", "tools", "tests", "benchmarks"),
)
# The packages with compiled modules. `compiled` runs most of these tests on a wheel, `apart` all others.
ON_WHEEL = tuple(
    f"tests/unit/{part}" for part in ("common", "rpc", "runtime", "store", "broker", "proxy", "cluster", "client")
)
NOT_ON_WHEEL = tuple(f"--ignore={folder}" for folder in ON_WHEEL)
# What `interop` leaves to `peers`: Apache's servers, and frameworks with hundreds of libraries.
WITH_PEERS = (
    "tests/interop/test_applications.py",
    "tests/interop/test_client_on_apache.py",
    "tests/interop/test_client_transactions_on_apache.py",
    "tests/interop/test_dashboard_calls.py",
    "tests/interop/test_guarded_clients_on_apache.py",
    "tests/interop/test_import_from_apache.py",
    "tests/interop/test_mqadmin_beside_apache.py",
    "tests/interop/test_mirror_from_apache.py",
    "tests/interop/test_official_producers_on_apache.py",
)
FAST = "not slow and not postgres"
# Profiles of tests/conftest.py: a few random examples, and the same ones each time.
FEW_EXAMPLES, SAME_EXAMPLES = "--hypothesis-profile=quick", "--hypothesis-profile=landing"
GENERATORS = ("protos", "remote_shard", "admin", "blocking", "reference", "monitoring", "openapi")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """A part of the proof that is run, and can fail, as one."""

    name: str
    commands: tuple[tuple[str, ...], ...]
    needs: tuple[str, ...] = ()
    cores: float = 1.0
    memory_mib: int = 500
    alone_with: str = ""
    """Two tiers with the same word here never run at the same time."""


def pytest(
    *arguments: str, python: str = "python", workers: int = 2, by: str = "load", examples: str = SAME_EXAMPLES
) -> tuple[str, ...]:
    """A command that runs tests on `workers` processes, handed out by test or by file."""
    parallel = ("-n", str(workers), "--dist", by) if workers > 1 else ()
    timings = ("-p", "tools.tiers.timings", f"--timings={TIMINGS}")
    return (python, "-m", "pytest", "-q", f"--randomly-seed={SEED}", examples, *timings, *parallel, *arguments)


# Installing with apt-get or building; one at a time, in this order, while tiers that need none of it run.
PREPARATIONS = {
    "postgres": ("bash", "tests/support/install_postgres.sh"),
    "java": ("bash", "tests/support/install_java.sh"),
    "spark-classes": ("python", "-m", "tests.support.spark_classes"),
    "compiled": ("bash", "tools/compiled"),
    "browser": ("bash", "tests/support/install_browser.sh"),
    "prometheus": ("bash", "tests/support/install_prometheus.sh"),
    "nginx": ("bash", "tests/support/install_nginx.sh"),
    "toolchains": ("bash", "tests/interop/install_toolchains.sh"),
    "kubernetes": ("bash", "tests/k8s/install_tools.sh"),
    "docker": ("bash", "tests/containers/with_docker.sh", "true"),
    "kubernetes-server": ("bash", "tests/k8s/install_api_server.sh"),
}

WITH_DOCKER = ("bash", "tests/containers/with_docker.sh")

_ALL = (
    Tier(name="lint", commands=(("ruff", "format", "--check", *CODE), ("ruff", "check", *CODE)), memory_mib=200),
    Tier(name="types", commands=(("bash", "tools/typed", *TYPED),), memory_mib=1500),
    Tier(name="layers", commands=(("lint-imports", "--no-logo"),)),
    Tier(
        name="generated",
        commands=tuple(("python", f"tools/generate_{what}.py", "--check") for what in GENERATORS),
        memory_mib=300,
    ),
    Tier(
        name="unit",
        commands=(pytest("-m", FAST, "tests/unit", workers=3, examples=FEW_EXAMPLES),),
        cores=1.4,
        memory_mib=1500,
    ),
    Tier(name="system", commands=(pytest("-m", FAST, "tests/system"),), cores=1.4, memory_mib=800),
    Tier(
        name="containers",
        commands=(
            (*WITH_DOCKER, *pytest("-m", "containers and not long", "tests/containers", "tests/k8s", workers=1)),
        ),
        needs=("docker", "kubernetes", "compiled"),
        cores=0.6,
        memory_mib=3000,
        alone_with="docker",
    ),
    Tier(
        name="cluster",
        commands=(pytest("-m", "not long", "tests/cluster", python=COMPILED, by="loadfile"),),
        needs=("compiled", "postgres", "prometheus"),
        memory_mib=2500,
    ),
    Tier(
        name="spark",
        commands=(pytest("-m", "not long", "tests/spark", by="loadfile"),),
        needs=("java", "spark-classes"),
        cores=1.2,
        memory_mib=4500,
    ),
    Tier(
        name="interop",
        commands=(
            pytest(
                "-m",
                "not long",
                "tests/interop",
                *(f"--ignore={each}" for each in WITH_PEERS),
                python=COMPILED,
                by="loadfile",
            ),
        ),
        needs=("compiled", "toolchains"),
        memory_mib=2500,
    ),
    Tier(
        name="e2e",
        commands=(pytest("-m", "not long", "tests/e2e", by="loadfile"),),
        needs=("java",),
        cores=0.8,
        memory_mib=2000,
    ),
    Tier(
        name="console",
        commands=(pytest("-m", "not long", "tests/console", by="loadfile"),),
        needs=("browser", "nginx", "postgres"),
        cores=0.8,
        memory_mib=2000,
    ),
    Tier(
        name="attacks",
        commands=(pytest("tests/attacks", python=COMPILED),),
        needs=("compiled",),
        # It uses 0.6, and measures how long a server works before an answer: not beside three other tiers.
        cores=1.4,
        memory_mib=1000,
    ),
    Tier(
        name="compiled",
        commands=(pytest(*ON_WHEEL, "tests/system", python=COMPILED),),
        needs=("compiled", "postgres"),
        cores=1.4,
        memory_mib=1500,
    ),
    Tier(
        name="apart",
        commands=(
            pytest("-m", FAST, "tests/unit", *NOT_ON_WHEEL),
            pytest("-m", f"plain and {FAST}", *ON_WHEEL),
        ),
        cores=1.6,
        memory_mib=1500,
    ),
    Tier(
        name="slow",
        commands=(
            pytest("-m", "slow or postgres", "tests/unit", *NOT_ON_WHEEL, "tests/fuzz"),
            pytest("-m", "not long", "tests/simulation"),
        ),
        needs=("postgres",),
        cores=1.4,
        memory_mib=1500,
    ),
    Tier(name="faults", commands=(pytest("tests/faults", by="loadfile"),), cores=0.8, memory_mib=800),
    Tier(name="k8s", commands=(pytest("-m", "not containers", "tests/k8s", workers=1),), needs=("kubernetes",)),
    Tier(
        name="peers",
        commands=(pytest(*WITH_PEERS, python=COMPILED, by="loadfile"),),
        needs=("compiled", "toolchains"),
        memory_mib=4000,
    ),
    Tier(
        name="long",
        commands=(
            pytest("-m", "long", "tests/spark", "tests/e2e", "tests/console", "tests/simulation", workers=1),
            pytest("-m", "long", "tests/interop", "tests/cluster", python=COMPILED, workers=1),
            (*WITH_DOCKER, *pytest("-m", "long", "tests/containers", "tests/k8s", workers=1)),
        ),
        needs=("compiled", "postgres", "java", "browser", "prometheus", "toolchains", "docker", "kubernetes"),
        memory_mib=6000,
        alone_with="docker",
    ),
    Tier(
        name="chaos",
        commands=(
            (COMPILED, "-m", "tests.cluster.chaos", "--minutes", "0.5"),
            ("python", "-m", "tests.spark.chaos", "--minutes", "0.5"),
        ),
        needs=("compiled", "postgres", "java", "toolchains"),
        memory_mib=4000,
    ),
    Tier(
        name="coverage",
        commands=(("python", "tools/measure_coverage.py", "-n", "2", "-m", FAST, "tests/unit", "tests/system"),),
        cores=1.6,
        memory_mib=2000,
    ),
)
TIERS = {tier.name: tier for tier in _ALL}
QUICK = ("lint", "types", "layers", "generated", "unit", "system")
# The longest first, so that none is left alone at the end. `unit` and `system` are not here: `compiled` runs most of
# their tests on a wheel, `apart` the others.
_LONGEST_FIRST = ("containers", "cluster", "interop", "spark", "compiled", "e2e", "attacks", "apart")
LANDING = (*QUICK[:4], *_LONGEST_FIRST, "slow", "console", "faults", "k8s")
# By name only, with what runs them regularly.
BY_NAME = {
    "peers": "our client and the official ones on Apache RocketMQ, and applications on published frameworks",
    "long": "the tests of other tiers that take minutes each",
    "chaos": "half a minute of each chaos run",
    "coverage": "which lines and branches `unit` and `system` execute",
}
