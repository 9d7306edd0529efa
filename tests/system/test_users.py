"""Users and policies over sockets: `ternmq.Admin`, asyncio and blocking, and the commands, against a whole stack."""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import ternmq
import ternmq.blocking
from ternmq.admin.users import Policy
from ternmq.testing import Stack
from ternmq_command.main import cli
from ternmq_command.terminal import contexts
from ternmq_registry.security.secret_encryption import OWN_KEY_FILE

SECRET = "correct-horse-battery"
Call = Callable[..., Result]


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with Stack(data_dir=tmp_path / "data") as running:
        yield running


@pytest.fixture
def call(stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.setattr(contexts, "contexts_file", lambda: tmp_path / "contexts.json")

    def invoke(*arguments: str, stdin: str | None = None, code: int = 0, env: dict[str, str] | None = None) -> Result:
        result = CliRunner().invoke(cli, arguments, input=stdin, env={"TERNMQ_ENDPOINT": stack.endpoint, **(env or {})})
        assert result.exit_code == code, result.output
        return result

    return invoke


def written(stack: Stack) -> bytes:
    """All that the stack has on its disk."""
    return b"".join(file.read_bytes() for file in stack.settings.data_dir.rglob("*") if file.is_file())


async def test_a_user_from_its_making_to_its_end(stack: Stack) -> None:
    async with ternmq.Admin(stack.endpoint) as admin:
        root = await admin.create_user("root", SECRET, is_super=True)
        assert (root.secret, root.user.is_super, root.user.enabled) == ("", True, True)
        made = await admin.create_user("alice")
        assert len(made.secret) >= 32
        assert made.secret not in repr(made)
        with pytest.raises(ternmq.BadRequest, match="'alice' exists"):
            await admin.create_user("alice")
        await admin.put_policy("alice", "topic:orders-*", "sub,pub", sources=["10.0.0.0/8"])
        user = await admin.put_policy("alice", "*", "delete", deny=True)
        assert user.policies == (
            Policy(resource="*", actions="Delete", deny=True),
            Policy(resource="Topic:orders-*", actions="Pub,Sub", sources=("10.0.0.0/8",)),
        )
        assert (await admin.delete_policy("alice", "*", deny=True)).policies == user.policies[1:]
        rotated = await admin.rotate_secret("alice", overlap=timedelta(hours=1))
        assert rotated.secret not in ("", made.secret)
        newest, before = (await admin.describe_user("alice")).secrets
        assert newest.valid_until is None
        assert before.valid_until is not None
        assert not (await admin.update_user("alice", enabled=False)).enabled
        assert [user.name async for user in admin.list_users()] == ["alice", "root"]
        assert (await admin.reseal_secrets()).users == 0
        with pytest.raises(ternmq.ClientError, match="'root' is the last enabled super user"):
            await admin.delete_user("root")
        await admin.delete_user("alice")
        with pytest.raises(ternmq.NotFound, match="there is no user 'alice'"):
            await admin.describe_user("alice")


NO_USERS = [("a/b", SECRET, "letters, digits"), ("", SECRET, "letters, digits"), ("a", "short", "12 to 256 ASCII")]
NO_POLICIES: list[tuple[str, str, list[str], str]] = [
    ("Queue:a", "Pub", [], "is no resource"),
    ("Topic:a", "Publish", [], "is no action"),
    ("Topic:a", "", [], "is no action"),
    ("Topic:a", "Pub", ["10.0.0.0/99"], "is no source range"),
]


async def test_what_is_no_user_and_what_is_no_policy_is_refused(stack: Stack) -> None:
    async with ternmq.Admin(stack.endpoint) as admin:
        for name, secret, problem in NO_USERS:
            with pytest.raises(ternmq.BadRequest, match=problem) as refused:
                await admin.create_user(name, secret)
            assert secret not in str(refused.value)
        await admin.create_user("alice", SECRET)
        for resource, actions, sources, problem in NO_POLICIES:
            with pytest.raises(ternmq.BadRequest, match=problem):
                await admin.put_policy("alice", resource, actions, sources=sources)


async def test_no_secret_is_in_what_a_server_writes_and_all_are_there_after_a_restart(
    stack: Stack, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        async with ternmq.Admin(stack.endpoint) as admin:
            await admin.create_user("root", SECRET, is_super=True)
            secrets = [SECRET, (await admin.create_user("alice")).secret, (await admin.rotate_secret("alice")).secret]
            before = [user async for user in admin.list_users()]
        await asyncio.to_thread(stack.restart)
        async with ternmq.Admin(stack.endpoint) as admin:
            assert [user async for user in admin.list_users()] == before
    on_disk = written(stack)
    assert (stack.settings.data_dir / OWN_KEY_FILE).exists()
    for secret in secrets:
        assert secret not in caplog.text
        assert secret.encode() not in on_disk
    assert "super user root was created by" in caplog.text


def test_the_commands_say_what_they_did(call: Call) -> None:
    assert call("user", "create", "root", "--super", "--secret-stdin", stdin=f"{SECRET}\n").stdout == (
        "super user root created\n"
    )
    first = json.loads(call("user", "create", "alice", "--json").stdout)["secret"]
    shown = call("user", "rotate", "alice", "--overlap", "0").stdout
    assert shown.startswith("user alice has a new secret\nits secret, which is not shown again: ")
    assert first not in shown
    call("policy", "allow", "alice", "Topic:orders-*", "Pub,Sub", "--from", "10.0.0.0/8", "--from", "::1")
    call("policy", "deny", "alice", "Topic:orders-secret", "All")
    policies = json.loads(call("policy", "list", "alice", "--json").stdout)
    assert [(each["decision"], each["resource"], each["actions"], each["from"]) for each in policies] == [
        ("allow", "Topic:orders-*", "Pub,Sub", ["10.0.0.0/8", "::1/128"]),
        ("deny", "Topic:orders-secret", "All", []),
    ]
    call("policy", "remove", "alice", "Topic:orders-secret", "--deny")
    assert "orders-secret" not in call("policy", "list").stdout
    call("user", "update", "alice", "--disable")
    table = call("user", "list").stdout
    assert [line.split()[:3] for line in table.splitlines()] == [
        ["NAME", "SUPER", "ENABLED"],
        ["alice", "no", "no"],
        ["root", "yes", "yes"],
    ]
    assert "Topic:orders-*" in call("user", "show", "alice").stdout
    assert call("user", "reseal").stdout == "secrets of 0 users encrypted with the first key\n"
    assert "give --yes" in call("user", "delete", "alice", code=2).stderr
    call("user", "delete", "alice", "--yes")
    assert call("user", "show", "alice", code=1).stderr.startswith("ternmq: NOT_FOUND: there is no user 'alice'")


def test_a_secret_on_standard_input_is_checked_and_never_shown(call: Call) -> None:
    refused = call("user", "create", "alice", "--secret-stdin", stdin="a b c d e f g h\n", code=2)
    assert "a b c" not in refused.output
    assert call("user", "list").stderr == "no users\n"


APPLIED = """
users:
  - {name: root, super: true, secret_env: ROOT_SECRET}
  - name: alice
    policies:
      - {allow: "topic:orders-*", actions: [pub, sub], from: 10.0.0.0/8}
      - {deny: Topic:orders-secret, actions: All}
  - {name: old, enabled: false, secret_file: %s}
"""


def test_a_file_declares_users_and_a_server_tells_them(call: Call, tmp_path: Path) -> None:
    (tmp_path / "old.secret").write_text(f"{SECRET}\n")
    file = tmp_path / "users.yaml"
    file.write_text(APPLIED % (tmp_path / "old.secret"))
    assert "the variable ROOT_SECRET has no secret" in call("apply", "-f", str(file), code=2).stderr
    env = {"ROOT_SECRET": SECRET}
    assert "create policy alice allow Topic:orders-*" in call("apply", "-f", str(file), "--dry-run", env=env).stdout
    assert call("user", "list").stderr == "no users\n"
    printed = call("apply", "-f", str(file), env=env).stdout
    assert (
        printed.count("the secret of user") == printed.count("the secret of user alice, which is not shown again") == 1
    )
    assert SECRET not in printed
    again = call("apply", "-f", str(file), "--json")
    assert {record["outcome"] for record in json.loads(again.stdout)} == {"unchanged"}
    exported = call("export")
    assert SECRET not in exported.output
    (tmp_path / "exported.yaml").write_text(exported.stdout)
    same = call("apply", "-f", str(tmp_path / "exported.yaml"), "--json")
    assert {record["outcome"] for record in json.loads(same.stdout)} == {"unchanged"}
    file.write_text('users: [{name: alice, policies: [{allow: "Topic:orders-*", actions: Sub}]}]')
    (updated,) = [each for each in json.loads(call("apply", "-f", str(file), "--json").stdout) if each["changes"]]
    assert updated["name"] == "alice allow Topic:orders-*"
    assert len(json.loads(call("user", "show", "alice", "--json").stdout)["policies"]) == 2


NO_FILES = [
    ("users: [{name: a/b}]", "letters, digits"),
    ("users: [{name: a, secret: x}]", "unknown key 'secret'"),
    ("users: [{name: a, secret_env: X, secret_file: y}]", "not both"),
    ("users: [{name: a, super: 1}]", "super must be true or false"),
    ("users: [{name: a, policies: [{allow: 'Topic:a', deny: 'Topic:a', actions: Pub}]}]", "allow or deny"),
    ("users: [{name: a, policies: [{allow: 'Topic:a'}]}]", "text is needed"),
    ("users: [{name: a, policies: [{allow: 'Topic:a', actions: Fly}]}]", "is no action"),
    (
        "users: [{name: a, policies: [{allow: '*', actions: Pub}, {allow: '*', actions: Sub}]}]",
        "make the same decision",
    ),
    ("users: [{name: a}, {name: a}]", "both declare 'a'"),
]


def test_what_a_file_must_not_say_of_users(call: Call) -> None:
    for text, problem in NO_FILES:
        assert problem in call("apply", "-f", "-", stdin=text, code=2).stderr


def test_a_generated_key_is_a_key(call: Call, tmp_path: Path) -> None:
    key = call("user", "generate-key").stdout
    file = tmp_path / "key"
    file.write_text(key)
    with Stack(secrets_key_file=file, init_user="root", init_secret=SECRET) as stack:
        assert not (stack.settings.data_dir / OWN_KEY_FILE).exists()
        with ternmq.blocking.Admin(stack.endpoint) as admin:
            (root,) = admin.list_users()
            assert (root.name, root.is_super, len(root.secrets)) == ("root", True, 1)
