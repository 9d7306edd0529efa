"""`ternmq bench`: sends and receives messages, and prints rates and latencies."""

from typing import TYPE_CHECKING

import click

from ternmq_command.terminal.options import endpoint_option, json_option
from ternmq_command.terminal.output import format_record, print_json
from ternmq_command.terminal.printing import echo_lines

if TYPE_CHECKING:
    from ternmq_command.bench.bench_run import BenchFigures

MESSAGES_MAX = 10_000_000
BYTES_MIN = 16  # a number and a time
BYTES_MAX = 4 * 1024 * 1024
IN_FLIGHT_MAX = 1024


@click.command()
@click.option("--messages", type=click.IntRange(1, MESSAGES_MAX), default=10_000, show_default=True, help="How many.")
@click.option("--size", type=click.IntRange(BYTES_MIN, BYTES_MAX), default=1024, show_default=True, help="Their bytes.")
@click.option(
    "--in-flight",
    type=click.IntRange(1, IN_FLIGHT_MAX),
    default=64,
    show_default=True,
    help="How many sends wait for their answer at a time.",
)
@endpoint_option
@json_option
def command(messages: int, size: int, in_flight: int, endpoint: str, as_json: bool) -> None:
    """Send messages to a topic created for that and receive them; print rates, latencies and the server's CPU time.

    This is a quick measurement by one Python process, which mostly needs more CPU than the server: `./run bench` of the
    checkout measures carefully what a server can do, and compares it with others. The topic and its group are deleted
    at the end, also after Ctrl-C; the messages take disk space on the server until retention removes them.

    The delivery latency is the time from the beginning of a send until its message is received. The server's CPU time
    is printed if the server runs on this machine, as the same user.

    \b
    Examples:
      ternmq bench
      ternmq bench --messages 100000 --size 256 --in-flight 256
      ternmq bench --in-flight 1 --json | jq .send_p99_ms
    """
    from ternmq_command.bench.bench_run import run_bench
    from ternmq_command.calls.library import converting_errors

    with converting_errors(endpoint):
        figures = run_bench(endpoint, messages=messages, size=size, in_flight=in_flight)
    record = _figures_record(figures, messages=messages, size=size, in_flight=in_flight)
    if as_json:
        print_json(record)
        return
    echo_lines(format_record(record))
    echo_lines(
        "\nA quick measurement by one Python process; `./run bench` of the checkout measures carefully.", err=True
    )


def _figures_record(figures: "BenchFigures", *, messages: int, size: int, in_flight: int) -> dict[str, object]:
    server_s = figures.server_cpu_s
    return {
        "messages": messages,
        "size": size,
        "in_flight": in_flight,
        "sent_per_s": round(messages / figures.send_s),
        "received_per_s": round(messages / figures.receive_s),
        "send_p50_ms": _to_ms(figures.sends.quantile_s(0.5)),
        "send_p99_ms": _to_ms(figures.sends.quantile_s(0.99)),
        "delivery_p50_ms": _to_ms(figures.deliveries.quantile_s(0.5)),
        "delivery_p99_ms": _to_ms(figures.deliveries.quantile_s(0.99)),
        "client_cpu_s": round(figures.client_cpu_s, 2),
        "server_cpu_s": None if server_s is None else round(server_s, 2),
    }


def _to_ms(seconds: float) -> float:
    return round(seconds * 1000, 2)
