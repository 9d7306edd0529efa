"""Formats the findings of `ternmq store verify` and `repair`, as records and as lines."""

from typing import TYPE_CHECKING

from ternmq_command.terminal.printing import echo

if TYPE_CHECKING:
    from ternmq_broker.store_tools.checking.findings import StoreFinding
    from ternmq_broker.store_tools.checking.verification import VerificationResult

UNSOUND = 1


def verified_record(found: "VerificationResult") -> dict[str, object]:
    kept = found.findings.kept_findings
    return {
        "sound": found.findings.is_sound,
        **summary_record(found),
        "problems": [_finding_record(each) for each in kept if each.is_problem],
        "accepted": [_finding_record(each) for each in kept if each.accepted],
        "harmless": [_finding_record(each) for each in kept if each.harmless],
        "not_listed": found.findings.not_kept,
        "set_aside_files": found.set_aside,
    }


def _finding_record(finding: "StoreFinding") -> dict[str, object]:
    return {
        "part": str(finding.part),
        "place": finding.place,
        "reason": finding.reason,
        "log_offset": finding.log_offset,
        "bytes": finding.size,
        "messages": [
            {"topic": each.topic, "queue": each.queue_id, "offset": each.queue_offset} for each in finding.messages
        ],
        "messages_more": finding.messages_more,
    }


def print_findings(found: "VerificationResult") -> None:
    for finding in found.findings.kept_findings:
        echo(finding_line(finding))
    if found.findings.not_kept:
        echo(f"and {found.findings.not_kept} more")
    if found.findings.counts:
        echo()


def finding_line(finding: "StoreFinding") -> str:
    word = "problem" if finding.is_problem else "accepted" if finding.accepted else "harmless"
    place = finding.place
    if finding.log_offset is not None and not place.startswith("log offset"):
        place += f", log offset {finding.log_offset}"
    if finding.size is not None:
        place += f", {finding.size} bytes"
    messages = [*map(str, finding.messages), *([f"{finding.messages_more} more"] if finding.messages_more else [])]
    return f"{word:<8}  {finding.part}: {place}: {finding.reason}" + (f" ({'; '.join(messages)})" if messages else "")


def summary_record(found: "VerificationResult") -> dict[str, object]:
    return {
        "in_use": found.is_running,
        "log_start": found.log_start,
        "log_end": found.log_end,
        "segments": found.segments,
        "records": found.records,
        "messages": found.messages,
        "indexed_to": found.index_to,
        "index_rows": found.index_rows,
        "index_keys": found.index_keys,
        "timer_entries": found.timer_entries,
        "pending_timers": found.pending_timers,
        "waiting_half_messages": found.waiting_halves,
        "journal_lines": found.journal_lines,
        "torn_tail_bytes": found.torn_bytes,
        "accepted_damage_bytes": sum(end - begin for begin, end in found.accepted),
        "files_set_aside": len(found.set_aside),
    }
