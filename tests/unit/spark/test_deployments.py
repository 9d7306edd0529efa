"""deploy/spark: what others start the lake pipeline by has words that the command takes, and fields that are there.

The SparkApplication is held against a list of the operator's fields that was made by hand from its Go types of v1beta2
(kubeflow/spark-operator, api/v1beta2/sparkapplication_types.go); what in it is Kubernetes' own, against its schemas.
"""

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from ternmq_command.main import cli
from ternmq_command.pipeline.lake import command as lake

FOLDER = Path(__file__).parents[3] / "deploy/spark"
ENTRY_POINT = FOLDER.parent / "docker/spark.sh"
IMAGE = FOLDER.parent / "docker/spark.Dockerfile"
KUBERNETES = "1.30"
SPEC = {
    "type": {"Java", "Python", "Scala", "R"},
    "mode": {"cluster", "client"},
    "pythonVersion": {"2", "3"},
    "sparkVersion": str,
    "image": str,
    "imagePullPolicy": str,
    "mainApplicationFile": str,
    "arguments": list,
    "sparkConf": dict,
    "restartPolicy": dict,
    "volumes": list,
    "driver": dict,
    "executor": dict,
}
RESTART_POLICY = {
    "type": {"Never", "Always", "OnFailure"},
    "onFailureRetries": int,
    "onFailureRetryInterval": int,
    "onSubmissionFailureRetries": int,
    "onSubmissionFailureRetryInterval": int,
}
POD = {
    "cores": int,
    "memory": str,
    "memoryOverhead": str,
    "env": list,
    "podSecurityContext": dict,
    "securityContext": dict,
    "volumeMounts": list,
}
DRIVER = {**POD, "serviceAccount": str}
EXECUTOR = {**POD, "instances": int}


def documents() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / "lake-application.yaml").read_text()))


@pytest.fixture
def spec() -> dict[str, Any]:
    (application,) = [each for each in documents() if each["kind"] == "SparkApplication"]
    assert application["apiVersion"] == "sparkoperator.k8s.io/v1beta2"
    found: dict[str, Any] = application["spec"]
    return found


def parsed(words: list[str]) -> dict[str, Any]:
    """What `ternmq` with these words was told; it refuses options that it does not have."""
    assert words[:2] == ["pipeline", "lake"]
    with lake.make_context("lake", words[2:], parent=click.Context(cli)) as context:
        return context.params


@pytest.mark.parametrize(
    ("path", "fields"),
    [((), SPEC), (("restartPolicy",), RESTART_POLICY), (("driver",), DRIVER), (("executor",), EXECUTOR)],
)
def test_every_field_is_the_operators(spec: dict[str, Any], path: tuple[str, ...], fields: dict[str, Any]) -> None:
    found = spec
    for name in path:
        found = found[name]
    assert found.keys() <= fields.keys()
    for name, value in found.items():
        wanted = fields[name]
        assert value in wanted if isinstance(wanted, set) else isinstance(value, wanted), name
    assert all(isinstance(value, str) for value in spec["sparkConf"].values())
    assert {"type", "sparkVersion", "mainApplicationFile", "driver", "executor"} <= spec.keys()


@pytest.mark.parametrize("role", ["driver", "executor"])
def test_what_is_kubernetes_own_fits_its_schemas(spec: dict[str, Any], role: str) -> None:
    part = spec[role]
    container = {
        "name": role,
        "image": spec["image"],
        "imagePullPolicy": spec["imagePullPolicy"],
        "env": part.get("env", []),
        "securityContext": part["securityContext"],
        "volumeMounts": part["volumeMounts"],
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": role},
        "spec": {
            "containers": [container],
            "volumes": spec["volumes"],
            "securityContext": part["podSecurityContext"],
        },
    }
    kubernetes_validate.validate(pod, KUBERNETES, strict=True)


def test_the_objects_beside_it_fit_their_schemas_and_its_names(spec: dict[str, Any]) -> None:
    others = [each for each in documents() if each["kind"] != "SparkApplication"]
    for each in others:
        kubernetes_validate.validate(each, KUBERNETES, strict=True)
    names = {(each["kind"], each["metadata"]["name"]) for each in others}
    (volume,) = spec["volumes"]
    assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in names
    assert ("ServiceAccount", spec["driver"]["serviceAccount"]) in names


def test_the_application_writes_where_all_its_pods_look(spec: dict[str, Any]) -> None:
    told = parsed(spec["arguments"])
    # It is spark-submit's.
    assert told["master"] is None
    for role in ("driver", "executor"):
        assert told["out"] in {mount["mountPath"] for mount in spec[role]["volumeMounts"]}
    cores = spec["executor"]["instances"] * spec["executor"]["cores"]
    assert spec["sparkConf"]["spark.sql.shuffle.partitions"] == str(cores)
    # Until another pod may have the checkpoint.
    restarts = spec["restartPolicy"]
    assert restarts["onFailureRetries"] * restarts["onFailureRetryInterval"] > 300


def test_the_images_file_is_what_the_application_runs(spec: dict[str, Any]) -> None:
    assert spec["mainApplicationFile"] == "local:///opt/ternmq/pipeline.py"
    assert "\nCOPY deploy/spark/pipeline.py /opt/ternmq/\n" in IMAGE.read_text()
    assert "!deploy/spark/pipeline.py" in (FOLDER.parents[1] / ".dockerignore").read_text().splitlines()
    said = subprocess.check_output(
        [sys.executable, FOLDER / "pipeline.py", *spec["arguments"][:2], "--help"], text=True, timeout=60
    )
    assert "ternmq pipeline lake --topics" in said


@pytest.mark.parametrize(("name", "is_read"), [("airflow_lake.py", False), ("dagster_lake.py", True)])
def test_the_command_lines_of_examples_are_the_commands(name: str, is_read: bool) -> None:
    tree = ast.parse((FOLDER / name).read_text(), name)
    compile(tree, name, "exec")
    (words,) = (
        ast.literal_eval(each.value)
        for each in tree.body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "COMMAND"
    )
    assert words[0] == "ternmq"
    told = parsed(words[1:])
    assert (told["topics"], told["is_continuous"], told["as_json"]) == ("orders", False, is_read)


def started(tmp_path: Path, program: str, words: list[str], **variables: str) -> list[str]:
    """What the image's entry point starts instead of this program, with which words."""
    path = tmp_path / program
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    path.chmod(0o755)
    environment = {"PATH": os.environ["PATH"], "SPARK_HOME": str(tmp_path), **variables}
    return subprocess.check_output(["sh", ENTRY_POINT, *words], env=environment, text=True, timeout=30).splitlines()


def test_a_driver_on_kubernetes_is_spark_submit_in_its_own_pod(tmp_path: Path) -> None:
    words = ["--properties-file", "/opt/p", "--class", "org.apache.spark.deploy.PythonRunner", "local:///x y.py", "a b"]
    found = started(tmp_path, "bin/spark-submit", ["driver", *words], SPARK_DRIVER_BIND_ADDRESS="10.0.0.7")
    assert found == ["--conf", "spark.driver.bindAddress=10.0.0.7", "--deploy-mode", "client", *words]


def test_an_executor_on_kubernetes_has_what_spark_says_in_variables(tmp_path: Path) -> None:
    said = {
        "SPARK_DRIVER_URL": "spark://driver",
        "SPARK_EXECUTOR_ID": "1",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_APPLICATION_ID": "spark-7",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.8",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "lake-exec-1",
    }
    options = {f"SPARK_JAVA_OPT_{number}": f"-Dx={number} $y" for number in range(11)}
    found = started(
        tmp_path,
        "java/bin/java",
        ["executor"],
        JAVA_HOME=str(tmp_path / "java"),
        SPARK_EXECUTOR_MEMORY="1024m",
        SPARK_CLASSPATH="/more/*",
        **said,
        **options,
    )
    words = ["driver-url", "executor-id", "cores", "app-id", "hostname", "resourceProfileId", "podName"]
    assert found == [
        *options.values(),
        "-Xms1024m",
        "-Xmx1024m",
        "-cp",
        f"{tmp_path}/conf:/more/*:{tmp_path}/jars/*",
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        *(part for word, value in zip(words, said.values(), strict=True) for part in (f"--{word}", value)),
    ]
