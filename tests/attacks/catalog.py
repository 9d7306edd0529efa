"""The attacks, by name, and what each needs."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.attacks import floods, requests, slow, tls, unread
from tests.attacks.target import Target

# Hardly more than a server needs to start.
DESCRIPTORS_FEW = 280
# Few, so that a short attack sees the limit.
AUTO_CREATED_PER_MINUTE = 30


def nothing(target: Target) -> None:
    """Nobody attacks: what the other figures are to be compared with."""
    for _ in target.rounds():
        pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """`prepare` comes before the healthy client; `environment` and `descriptors` are the server's, who takes TLS at the
    port of plain text with `tls`."""

    run: Callable[[Target], None]
    prepare: Callable[[Target], None] = nothing
    environment: Mapping[str, str] = field(default_factory=dict)
    descriptors: int | None = None
    topics_counted: bool = False
    tls: bool = False


def _slow(run: Callable[[Target], None]) -> Attack:
    return Attack(run=run, environment=slow.TIMEOUTS)


def _tls(run: Callable[[Target], None]) -> Attack:
    return Attack(run=run, environment=slow.TIMEOUTS, tls=True)


ATTACKS = {
    "nothing": Attack(run=nothing),
    "gzip-bombs": Attack(run=requests.gzip_bombs),
    "streams-at-window-zero": Attack(run=unread.streams_at_window_zero),
    "unfinished-messages": Attack(run=unread.unfinished_messages),
    "unread-receives": Attack(run=unread.unread_receives, prepare=unread.fill_and_make_groups),
    "receives-at-window-zero": Attack(run=unread.receives_at_window_zero, prepare=unread.fill_and_make_groups),
    "pulls-at-window-zero": Attack(run=unread.pulls_at_window_zero, prepare=unread.fill_and_make_groups),
    "unread-calls": Attack(run=unread.unread_calls),
    "open-streams": Attack(run=unread.open_streams),
    "reset-connections": Attack(run=unread.reset_connections, prepare=unread.fill_and_make_groups),
    "tiny-messages": Attack(run=requests.tiny_messages),
    "many-acknowledgements": Attack(run=requests.many_acknowledgements),
    "empty-entries": Attack(run=requests.empty_entries),
    "control-characters": Attack(run=requests.control_characters),
    "filter-warnings": Attack(run=requests.filter_warnings),
    "topics-in-a-loop": Attack(
        run=requests.topics_in_a_loop,
        environment={"TERNMQ_AUTO_CREATE_PER_MINUTE": str(AUTO_CREATED_PER_MINUTE)},
        topics_counted=True,
    ),
    "rapid-reset": Attack(run=floods.rapid_reset),
    "made-you-reset": Attack(run=floods.made_you_reset),
    "pings": Attack(run=floods.pings),
    "settings": Attack(run=floods.settings),
    "priorities": Attack(run=floods.priorities),
    "window-updates": Attack(run=floods.window_updates),
    "empty-data": Attack(run=floods.empty_data),
    "continuations": Attack(run=floods.continuations),
    "header-references": Attack(run=floods.header_references),
    "many-connections": Attack(run=slow.many_connections, descriptors=DESCRIPTORS_FEW),
    "half-greetings": _slow(slow.half_greetings),
    "half-headers": _slow(slow.half_headers),
    "half-bodies": _slow(slow.half_bodies),
    "idle-connections": _slow(slow.idle_connections),
    "slow-http": _slow(slow.slow_http),
    "long-polls": Attack(run=slow.long_polls, prepare=unread.create_topic),
    "unread-lines": Attack(run=slow.unread_lines),
    "unanswered-handshakes": _tls(tls.unanswered_handshakes),
    "many-handshakes": Attack(run=tls.many_handshakes, descriptors=DESCRIPTORS_FEW, tls=True),
    "slow-handshakes": _tls(tls.slow_handshakes),
    "handshakes-in-a-loop": _tls(tls.handshakes_in_a_loop),
    "handshakes-given-up": _tls(tls.handshakes_given_up),
    "key-updates": _tls(tls.key_updates),
    "unanswered-key-updates": _tls(tls.unanswered_key_updates),
    "half-closes": _tls(tls.half_closes),
}


def environment(attack: Attack) -> dict[str, str]:
    """That of the server: ours, without settings that a developer may have there, and what the attack wants."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TERNMQ_")}
    return {**kept, **attack.environment}
