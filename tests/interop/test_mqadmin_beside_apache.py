"""Commands of mqadmin at Apache RocketMQ 5.5.0 and at TernMQ, with the same topics, groups, messages and members."""

from pathlib import Path

import pytest

from tests.interop.mqadmin.beside import Compared, commit_for_tools, compare_command, two_worlds
from tests.interop.mqadmin.compared import ANY_ORDER, COMMANDS, DIFFERENT, ENDLESS

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(1800)]

ALWAYS_EQUAL_AT_LEAST = 60
_ENOUGH_S = 10
REPORT = Path("build", "mqadmin-beside-apache.txt")


def write_report(parts: list[str]) -> None:
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text("\n\n".join(parts) + "\n")


async def test_mqadmin_prints_what_it_prints_at_apache(tmp_path: Path) -> None:
    async with two_worlds(tmp_path) as servers:
        found: list[Compared] = []
        for command in COMMANDS:
            if command == "consumerProgress":
                await commit_for_tools(servers)
            compared = await compare_command(
                servers,
                command,
                in_order=not command.startswith(ANY_ORDER),
                interrupted_after_s=_ENOUGH_S if command.startswith(ENDLESS) else 0,
            )
            found.append(compared)
    differing = [each for each in found if not each.is_equal]
    equal = {each.name for each in found if each.is_equal}
    always_equal = equal - {each.name for each in differing}
    summary = (
        f"{len(found) - len(differing)} of {len(found)} calls print the same, of {len(equal)} commands; "
        f"{len(always_equal)} of them have no call that differs"
    )
    shown = [f"{each.show()}\n--- {DIFFERENT.get(each.command, 'NO REASON')}" for each in differing]
    write_report([summary, *shown])
    unexplained = [each.show() for each in differing if each.command not in DIFFERENT]
    assert not unexplained, f"{summary}; without a reason:\n\n" + "\n\n".join(unexplained)
    outdated = DIFFERENT.keys() - {each.command for each in differing}
    assert not outdated, f"these print the same by now: {sorted(outdated)}"
    assert len(always_equal) >= ALWAYS_EQUAL_AT_LEAST, summary
