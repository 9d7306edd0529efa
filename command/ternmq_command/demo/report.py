"""Formats the report at the end of the demo."""

from ternmq_command.demo.ledger import Ledger
from ternmq_command.terminal.output import format_table
from ternmq_common.printable import escape_line

MIB = 1024 * 1024
BUSIEST = 5


def format_report(ledger: Ledger, wanted: int) -> str:
    parts = [format_verdict(ledger, wanted)]
    if ledger.consuming.count:
        parts.append(format_figures(ledger))
    if ledger.consumed_count:
        parts.append(format_content(ledger))
    return "\n\n".join(parts)


def format_verdict(ledger: Ledger, wanted: int) -> str:
    missing = ledger.missing_rows(wanted)
    lost = [row for row in missing if ledger.sent[row]]
    came = f"{wanted - len(missing):,} of {wanted:,} flights were consumed"
    if lost:
        return f"{came}; {len(lost):,} that the broker acknowledged are LOST, the first is row {lost[0]}"
    if missing:
        return f"{came}; {len(missing):,} were not acknowledged by the broker"
    twice = f"{ledger.duplicates:,} deliveries were repeated" if ledger.duplicates else "none came twice"
    return f"{came}, none lost; {twice}"


def format_figures(ledger: Ledger) -> str:
    shares = ", ".join(f"consumer {number}: {count:,}" for number, count in sorted(ledger.by_consumer.items()))
    rows = [
        ("sent", f"{ledger.sending.rate:,.0f}/s", f"{ledger.sending.count:,} in {ledger.sending.seconds:.1f} s"),
        ("consumed", f"{ledger.consuming.rate:,.0f}/s", shares),
        ("latency", f"p50 {ledger.percentile_ms(50):.0f} ms", _tail_latencies(ledger)),
        ("memory", f"{ledger.resident_bytes / MIB:.0f} MiB", f"of the broker; at most {_format_peak_memory(ledger)}"),
    ]
    if ledger.unacked:
        rows.append(("refused", f"{ledger.unacked:,}", "deliveries could not be acknowledged, and were repeated"))
    for kill in ledger.kills:
        rows.append(  # noqa: PERF401
            ("kill -9", f"at {kill.consumed:,}", f"the broker served again after {kill.down_s:.1f} s")
        )
    width = max(len(row[1]) for row in rows)
    return "\n".join(f"  {name:<10}{value:<{width}}   {note}" for name, value, note in rows)


def format_content(ledger: Ledger) -> str:
    """Format statistics of the flights that the consumers received."""
    tally = ledger.tally
    origins = format_table(
        [
            {
                "origin": origin,
                "  flights": f"{count:>9,}",
                " departed": f"{tally.departed[origin]:>9,}",
                "mean delay (min)": round(tally.delay_minutes[origin] / max(1, tally.departed[origin]), 1),
            }
            for origin, count in tally.origins.most_common()
        ]
    )
    carriers = "  ".join(f"{escape_line(name)} {count:,}" for name, count in tally.carriers.most_common(BUSIEST))
    routes = "  ".join(f"{escape_line(name)} {count:,}" for name, count in tally.routes.most_common(BUSIEST))
    return f"{origins}\n\nbusiest carriers  {carriers}\nbusiest routes    {routes}"


def _tail_latencies(ledger: Ledger) -> str:
    return (
        f"p95 {ledger.percentile_ms(95):.0f} ms   p99 {ledger.percentile_ms(99):.0f} ms   "
        "(from the producer's call to the consumer)"
    )


def _format_peak_memory(ledger: Ledger) -> str:
    return f"{ledger.resident_bytes_most / MIB:.0f} MiB"
