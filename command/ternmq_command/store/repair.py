"""`ternmq store repair`: repairs a store."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ternmq_command.store.findings import UNSOUND, finding_line, print_findings, verified_record
from ternmq_command.store.options import directory_argument, progress_bar, store_failures
from ternmq_command.terminal.confirmation import confirm_action, yes_option
from ternmq_command.terminal.options import json_option
from ternmq_command.terminal.output import format_count, print_json
from ternmq_command.terminal.printing import echo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_broker.store_tools.checking.verification import VerificationResult
    from ternmq_broker.store_tools.repair import RepairResult


@click.command()
@directory_argument
@click.option("--dry-run", is_flag=True, help="Print what would be done, and change nothing.")
@click.option("--cut-newer", is_flag=True, help="Set aside and cut off a newer version's records at the log's end.")
@yes_option
@json_option
def repair(directory: Path, dry_run: bool, cut_newer: bool, yes: bool, as_json: bool) -> int:
    """Repair the problems that `ternmq store verify` finds in the store of DIR, which no broker may be using.

    Files derived from the log are rebuilt. Damaged records are copied to `store/set-aside` first, and then cut off or
    skipped: their messages are lost, and no others. Make a copy first if you can.

    \b
    Examples:
      ternmq store repair --dry-run
      ternmq store repair /var/lib/ternmq --yes
    """
    with store_failures():
        from ternmq_broker.store_tools import repair as repairing
        from ternmq_broker.store_tools.checking.verification import verify_store

        if dry_run or not yes:
            with progress_bar("verifying") as progress:
                before = verify_store(directory, progress)
            plan = repairing.plan_repair(before, cut_newer=cut_newer)
            if dry_run or not plan:
                return _print_dry_run(before, plan, as_json=as_json)
            if not as_json:
                print_findings(before)
                _print_lines("would", plan)
            confirm_action("Repair the store?", yes=yes)
        with progress_bar("repairing") as progress:
            repaired = repairing.repair_store(directory, progress, cut_newer=cut_newer)
    if as_json:
        lost = {"messages_lost": repaired.before.messages_lost}
        print_json({"dry_run": False, "done": repaired.done, **lost, **verified_record(repaired.after)})
    else:
        _print_repaired(repaired)
    return 0 if repaired.after.findings.is_sound else UNSOUND


def _print_dry_run(before: "VerificationResult", plan: "Sequence[str]", *, as_json: bool) -> int:
    if as_json:
        print_json({"dry_run": True, "would": list(plan), **verified_record(before)})
    else:
        print_findings(before)
        _print_lines("would", plan)
        echo("nothing to repair" if not plan else "nothing was changed (--dry-run)", err=True)
    return 0 if before.findings.is_sound else UNSOUND


def _print_repaired(repaired: "RepairResult") -> None:
    _print_lines("", repaired.done or ["nothing to repair"])
    kept = repaired.after.findings.kept_findings
    if repaired.before.damage:
        places, lost = format_count(len(repaired.before.damage), "damaged place"), repaired.before.messages_lost
        echo(f"lost: the content of {places} of the log; the index has {format_count(lost, 'message')} there")
        _print_lines("", [finding_line(finding) for finding in kept if finding.accepted])
    if repaired.after.findings.is_sound:
        echo("the store is sound")
        return
    _print_lines("", [finding_line(finding) for finding in kept if finding.is_problem])
    echo("the store is not sound yet", err=True)


def _print_lines(word: str, lines: "Sequence[str]") -> None:
    for line in lines:
        echo(f"{word} {line}".strip())
