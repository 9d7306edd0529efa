"""The stack with docker-compose.guarded.yml over it: clients come by TLS through the balancer, and say who they are."""

from collections.abc import Iterator

import pytest

from ternmq import Credentials, Message, TlsOptions, Unauthorized
from ternmq.blocking import Producer, SimpleConsumer
from ternmq.errors import TransportError
from ternmq.options import ClientOptions
from tests.containers.compose import GUARDED_FILE, Stack, inspected
from tests.containers.test_stack import POLL
from tests.support.until import read_until_text

# The first start builds all images.
pytestmark = [pytest.mark.containers, pytest.mark.slow, pytest.mark.timeout(900)]

SERVICES = ("broker-0", "broker-1", "proxy-0", "proxy-1", "load-balancer")
JOBS = ("certificates", "secrets")


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """What clients need of it, so without Spark."""
    with Stack(GUARDED_FILE, services=SERVICES) as running:
        running.wait_healthy("load-balancer")
        yield running


@pytest.fixture(scope="module")
def options(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> ClientOptions:
    """Those of the user root, taken from the stack as the file says."""
    ca = tmp_path_factory.mktemp("guarded") / "ca.pem"
    ca.write_text(stack.run_in("proxy-0", "cat", "/etc/ternmq/certificates/ca.pem"))
    secret = stack.run_in("proxy-0", "cat", "/etc/ternmq/secrets/init-secret")
    return {"tls": TlsOptions(ca=str(ca)), "credentials": Credentials("root", secret)}


def test_the_jobs_have_ended_and_left_files_for_their_user_alone(stack: Stack) -> None:
    for job in JOBS:
        assert inspected(stack.container(job))["State"]["ExitCode"] == 0
    files = (
        "/etc/ternmq/certificates/server.key",
        "/etc/ternmq/certificates/cluster.key",
        "/etc/ternmq/secrets/secrets-key",
    )
    assert set(stack.run_in("proxy-0", "stat", "-c", "%u %a", *files).splitlines()) == {"10001 600"}
    keys = "/etc/ternmq/certificates/ca.key", "/etc/ternmq/certificates/cluster-ca.key"
    assert stack.run_in("proxy-0", "cat", *keys) == "", "nobody could make members of the cluster with these any more"


def test_a_user_sends_and_receives_by_tls(stack: Stack, options: ClientOptions) -> None:
    sent = {b"%d" % number for number in range(20)}
    with Producer(stack.endpoint, topics=["shoes"], **options) as producer:
        for body in sent:
            producer.send(Message("shoes", body))
    bodies = set[bytes]()
    with SimpleConsumer(stack.endpoint, "readers", {"shoes": "*"}, await_duration=POLL, **options) as consumer:
        while len(bodies) < len(sent) and (views := consumer.receive()):
            consumer.ack(views)
            bodies |= {view.body for view in views}
    assert bodies == sent


@pytest.mark.parametrize(
    "credentials", [None, Credentials("root", "another-secret"), Credentials("nobody", "another-secret")]
)
def test_who_has_no_right_keys_is_refused(
    stack: Stack, options: ClientOptions, credentials: Credentials | None
) -> None:
    with (
        pytest.raises(Unauthorized),
        Producer(stack.endpoint, topics=["shoes"], tls=options["tls"], credentials=credentials) as producer,
    ):
        producer.send(Message("shoes", b"lost"))


def test_who_comes_in_plain_text_is_refused(stack: Stack, options: ClientOptions) -> None:
    with (
        pytest.raises(TransportError),
        Producer(stack.endpoint, topics=["shoes"], credentials=options["credentials"], max_attempts=1) as producer,
    ):
        producer.send(Message("shoes", b"lost"))


def test_a_refusal_is_in_the_audit_log_and_no_secret_in_any_log(stack: Stack, options: ClientOptions) -> None:
    with (
        pytest.raises(Unauthorized),
        Producer(
            stack.endpoint, topics=["hats"], tls=options["tls"], credentials=Credentials("mallory", "another-secret")
        ) as producer,
    ):
        producer.send(Message("hats", b"lost"))
    logs = read_until_text(lambda: stack.compose("logs", "--no-color"), "mallory")
    assert stack.run_in("proxy-0", "cat", "/etc/ternmq/secrets/init-secret") not in logs
    assert stack.run_in("proxy-0", "cat", "/etc/ternmq/secrets/secrets-key") not in logs


@pytest.mark.long
def test_a_rolling_upgrade_acts_as_the_first_user(stack: Stack) -> None:
    members = [service for service in SERVICES if service != "load-balancer"]
    before = {stack.container(service) for service in members}
    done = stack.upgraded("--all")
    assert done.returncode == 0, done.stderr
    assert "broker-0: new messages go to others" in done.stderr
    assert not before & {stack.container(service) for service in members}


def test_a_second_start_keeps_certificates_and_secrets(stack: Stack) -> None:
    before = [
        stack.run_in("proxy-0", "cat", f"/etc/ternmq/{name}") for name in ("certificates/ca.pem", "secrets/init-secret")
    ]
    stack.compose("up", "--detach", "--force-recreate", *JOBS, timeout_s=240)
    assert [
        stack.run_in("proxy-0", "cat", f"/etc/ternmq/{name}") for name in ("certificates/ca.pem", "secrets/init-secret")
    ] == before
