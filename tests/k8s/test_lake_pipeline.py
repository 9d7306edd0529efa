"""The CronJob that writes topics into a lake: its words, its claim, its keys, and how an overlay gets it."""

from dataclasses import replace
from pathlib import Path

import kubernetes_validate  # type: ignore[import-untyped]
import pytest

from ternmq_command.calls.access import KEY_VARIABLES
from tests.k8s.reachability import End, allowed
from tests.k8s.rendering import Json, Pod, arguments, environment, named, pods, rendered, settings_and_secrets
from tests.k8s.test_guide import by_name, checkout, commands, production_after
from tests.k8s.test_schemas import VERSIONS
from tests.k8s.test_settings import parsed

__all__ = ["checkout"]  # a fixture

SECRET = {"access-key": "the-access-key", "secret-key": "the-secret-key"}


def lake(objects: tuple[Json, ...]) -> Pod:
    (found,) = (pod for pod in pods(objects) if pod.component == "lake")
    return found


def words(pod: Pod, objects: tuple[Json, ...]) -> list[str]:
    (container,) = pod.containers
    return arguments(container, environment(pod, container, settings_and_secrets(objects)))


@pytest.fixture
def pipeline() -> Pod:
    """The pipeline's pod in dev."""
    return lake(rendered("dev"))


def test_its_words_are_the_commands_and_name_what_is_there(pipeline: Pod) -> None:
    objects = rendered("dev")
    command, values = parsed(words(pipeline, objects))
    assert command == "ternmq pipeline lake"
    service = named(objects, "Service", "ternmq")
    assert values["endpoint"] == f"ternmq:{service['spec']['ports'][0]['port']}"
    assert values["topics"] == "orders"
    assert values["is_continuous"] is False
    mounts = {mount["name"]: mount["mountPath"] for mount in pipeline.containers[0]["volumeMounts"]}
    # Without a --checkpoint the progress is in the lake's own folder, so on the claim as well.
    assert (values["out"], values["checkpoint"]) == (mounts["lake"], None)


def test_two_runs_are_never_at_work_on_one_claim(pipeline: Pod) -> None:
    spec = pipeline.workload["spec"]
    assert spec["concurrencyPolicy"] == "Forbid"
    assert spec["jobTemplate"]["spec"]["activeDeadlineSeconds"]
    claim = named(rendered("dev"), "PersistentVolumeClaim", "lake")
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert pipeline.spec["securityContext"]["fsGroup"] == pipeline.spec["securityContext"]["runAsUser"]


def test_sparks_local_folder_is_the_images(pipeline: Pod) -> None:
    dockerfile = (Path(__file__).parents[2] / "deploy/docker/spark.Dockerfile").read_text()
    (spill,) = (each["mountPath"] for each in pipeline.containers[0]["volumeMounts"] if each["name"] == "spill")
    assert f"SPARK_LOCAL_DIRS={spill}\n" in dockerfile


def test_keys_come_from_a_secret_that_need_not_be_there(pipeline: Pod) -> None:
    (container,) = pipeline.containers
    known = settings_and_secrets(rendered("dev"))
    assert not set(KEY_VARIABLES) & environment(pipeline, container, known).keys()
    signed = environment(pipeline, container, {**known, ("Secret", "lake-pipeline-keys"): SECRET})
    assert {name: signed.get(name) for name in KEY_VARIABLES[:2]} == dict(
        zip(KEY_VARIABLES[:2], SECRET.values(), strict=True)
    )
    assert not [word for word in arguments(container, signed) if "-key" in word]


def test_a_pod_with_its_component_alone_gets_nowhere(pipeline: Pod) -> None:
    """Its policy is about both labels, so that no other pod gets a way out by it."""
    objects = rendered("dev")
    (proxy,) = (pod for pod in pods(objects) if pod.component == "proxy")
    target = End("proxy", proxy.namespace, proxy.labels)
    stranger = replace(pipeline, labels={"app.kubernetes.io/component": "lake"})
    assert allowed(objects, End("lake", pipeline.namespace, pipeline.labels), target, 8081)
    assert not allowed(objects, End("stranger", stranger.namespace, stranger.labels), target, 8081)


def test_it_is_of_the_same_version_as_the_brokers(pipeline: Pod) -> None:
    images = [each["image"] for pod in [*pods(rendered("dev")), pipeline] for each in pod.containers]
    assert len({image.rpartition(":")[2] for image in images if image.startswith("ternmq/")}) == 1


def test_production_gets_it_as_the_guide_says_and_is_otherwise_the_same(checkout: Path) -> None:
    before, objects = by_name(rendered("production")), production_after(checkout, commands("Lake pipeline"))
    after = by_name(objects)
    assert {key: after[key] for key in before} == before
    added = {kind for kind, _ in after.keys() - before.keys()}
    assert added == {"ConfigMap", "CronJob", "NetworkPolicy", "PersistentVolumeClaim", "ServiceAccount"}
    for key in after.keys() - before.keys():
        kubernetes_validate.validate(after[key], VERSIONS[-1], strict=True)
    production, dev = lake(objects), lake(rendered("dev"))
    assert "--topics=orders,payments" in words(production, objects)
    # So what containers prove of dev's holds here, but for the guard, which is the servers' CA alone.
    (server,) = (each["secret"] for each in production.spec["volumes"] if each["name"] == "server")
    assert server["items"] == [{"key": "ca.crt", "path": "ca.crt"}]
    assert without_guard(production.spec) == dev.spec


def without_guard(spec: Json) -> Json:
    """The pod without what the component `guarded` gives it."""
    (container,) = spec["containers"]
    (mount,) = (each for each in container["volumeMounts"] if each["name"] == "server")
    (ca,) = (each["value"] for each in container["env"] if each["name"] == "TERNMQ_CA")
    assert ca == f"{mount['mountPath']}/ca.crt"
    plain = {
        "env": [each for each in container["env"] if each["name"] != "TERNMQ_CA"],
        "volumeMounts": [each for each in container["volumeMounts"] if each is not mount],
    }
    volumes = [each for each in spec["volumes"] if each["name"] != "server"]
    return {**spec, "containers": [container | plain], "volumes": volumes}
