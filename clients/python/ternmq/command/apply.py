"""`ternmq apply`: topics and groups as a file declares them; what is there with the same settings stays untouched."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ternmq.command.declared import count, declared_settings, shown
from ternmq.command.declaring_file import parsed
from ternmq.command.failures import CommandFailure, Refused, WrongUsage
from ternmq.command.group_settings import GroupSettings, set_given
from ternmq.command.options import endpoint_option, json_option
from ternmq.command.output import print_records
from ternmq.command.topic import TYPE_NAMES
from ternmq_common.printable import cut
from ternmq_common.settings import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq.command.admin import AdminClient

TOPIC_KEYS = ("name", "type", "queues")
GROUP_KEYS = ("name", "fifo", *GroupSettings.__annotations__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One topic or group of the file, checked."""

    kind: str
    name: str
    create: "Callable[[AdminClient], bool]"


@click.command()
@click.option(
    "-f",
    "--file",
    type=click.Path(path_type=Path, allow_dash=True),
    required=True,
    metavar="FILE",
    help="YAML, TOML or JSON by its ending; - is YAML or JSON on standard input.",
)
@endpoint_option
@json_option
def command(file: Path, endpoint: str, as_json: bool) -> None:
    """Create the topics and groups that FILE declares.

    \b
    The file, as YAML:
      topics:
        - {name: orders, type: fifo, queues: 16}
        - {name: audit}
      groups:
        - {name: billing, fifo: true, max_attempts: 5}
        - {name: report, retry_backoff: "exponential:1s,10m,2", consume_from: earliest,
           assignment: consistent-hash, queue_lock_hold: 30s}
        - {name: alarms, priority_factor: 90}

    All items are tried; the exit code is 1 if the server refused one. Nothing is deleted.

    \b
    Examples:
      ternmq apply -f topics.yaml
      ternmq apply -f topics.toml --endpoint broker.example:8081 --json
    """
    try:
        declared = declarations(parsed(file), source=str(file))
    except RecursionError:
        raise WrongUsage(f"{file} is nested too deeply; topics and groups are lists of tables") from None
    from ternmq.command.admin import AdminClient

    with AdminClient(endpoint) as admin:
        records = [_applied(admin, declaration) for declaration in declared]
    print_records(records, as_json=as_json, nothing=f"{file} declares nothing")
    if refused := [record for record in records if record["outcome"] == "refused"]:
        raise CommandFailure(f"{len(refused)} of {len(records)} were refused; the first: {refused[0]['reason']}")


def _applied(admin: "AdminClient", declaration: Declaration) -> dict[str, object]:
    record: dict[str, object] = {"kind": declaration.kind, "name": declaration.name}
    try:
        created = declaration.create(admin)
    except Refused as refusal:
        return {**record, "outcome": "refused", "reason": refusal.message}
    return {**record, "outcome": "created" if created else "unchanged", "reason": ""}


def declarations(content: object, *, source: str) -> list[Declaration]:
    """Topics first, then groups, in the order of the file; WrongUsage for what the file must not say."""
    sections = _checked_table({} if content is None else content, ("topics", "groups"), where=source)
    makers = (("topics", TOPIC_KEYS, _topic), ("groups", GROUP_KEYS, _group))
    declared: list[Declaration] = []
    for section, known, make in makers:
        where = f"{source}: {section}"
        for i, item in enumerate(_checked_list(sections.get(section), where=where)):
            declared.append(make(_checked_table(item, known, where=f"{where}[{i}]"), f"{where}[{i}]"))
    return declared


def _topic(item: dict[str, object], where: str) -> Declaration:
    name, type_name = _name(item, where), item.get("type", "normal")
    if not isinstance(type_name, str) or type_name.lower() not in TYPE_NAMES:
        raise WrongUsage(f"{where}: type {shown(type_name)}{did_you_mean(cut(str(type_name)), TYPE_NAMES)}")
    queues = count(item, "queues", where) or 0
    return Declaration(
        kind="topic", name=name, create=lambda admin: admin.create_topic(name, type_name.lower(), queues)
    )


def _group(item: dict[str, object], where: str) -> Declaration:
    name, fifo = _name(item, where), item.get("fifo", False)
    if not isinstance(fifo, bool):
        raise WrongUsage(f"{where}: fifo must be true or false, not {shown(fifo)}")
    settings = declared_settings(item, where)

    def create(admin: "AdminClient") -> bool:
        from ternmq_protos.admin_v1 import admin_pb2

        group = admin_pb2.Group(name=name, fifo=fifo)
        set_given(group, settings)
        return admin.create_group(group)

    return Declaration(kind="group", name=name, create=create)


def _name(item: dict[str, object], where: str) -> str:
    name = item.get("name")
    if not isinstance(name, str) or not name:
        raise WrongUsage(f"{where}: a name is needed, as text")
    return name


def _checked_table(content: object, known: tuple[str, ...], *, where: str) -> dict[str, object]:
    if not isinstance(content, dict):
        raise WrongUsage(f"{where}: a table with {', '.join(known)} is needed")
    for key in content:
        if key not in known:
            raise WrongUsage(f"{where}: unknown key {shown(key)}{did_you_mean(cut(str(key)), known)}")
    return content


def _checked_list(content: object, *, where: str) -> list[object]:
    if content is None:
        return []
    if not isinstance(content, list):
        raise WrongUsage(f"{where}: a list is needed")
    return content
