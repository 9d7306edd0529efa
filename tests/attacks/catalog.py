"""The attacks, by name, and what each needs."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.attacks import floods, requests, slow, tls, unread
from tests.attacks.remoting import frames as remoting_frames
from tests.attacks.remoting import requests as remoting_requests
from tests.attacks.target import Target

# Hardly more than a server needs to start.
DESCRIPTORS_FEW = 280
# Few, so that a short attack sees the limit.
AUTO_CREATED_PER_MINUTE = 30
FEW_CREATED = {"TERNMQ_AUTO_CREATE_PER_MINUTE": str(AUTO_CREATED_PER_MINUTE)}


def nothing(target: Target) -> None:
    """Nobody attacks: what the other figures are to be compared with."""
    for _ in target.rounds():
        pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """`prepare` comes before the healthy client; `environment` and `descriptors` are the server's, who takes TLS at the
    port of plain text with `tls`. With `remoting` the healthy client comes by that protocol."""

    run: Callable[[Target], None]
    prepare: Callable[[Target], None] = nothing
    environment: Mapping[str, str] = field(default_factory=dict)
    descriptors: int | None = None
    topics_counted: bool = False
    tls: bool = False
    remoting: bool = False


def _slow(run: Callable[[Target], None]) -> Attack:
    return Attack(run=run, environment=slow.TIMEOUTS)


def _tls(run: Callable[[Target], None]) -> Attack:
    return Attack(run=run, environment=slow.TIMEOUTS, tls=True)


def _remoting(run: Callable[[Target], None], *, is_filled: bool = True, is_slow: bool = False, **how: Any) -> Attack:  # noqa: ANN401 - as Attack
    """An attack on the port of the remoting protocol."""
    if is_filled:
        how["prepare"] = remoting_requests.fill_topic
    # Each group that is created has its line in the log.
    how["environment"] = FEW_CREATED | (slow.TIMEOUTS if is_slow else {})
    return Attack(run=run, remoting=True, **how)


def _at_remoting(run: Callable[[Target], None]) -> Attack:
    """An attack with TLS, at the port of the remoting protocol."""
    return replace(_tls(lambda target: run(replace(target, grpc=target.remoting))), remoting=True)


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
        environment=FEW_CREATED,
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
    "remoting-nothing": _remoting(nothing, is_filled=False),
    "remoting-half-frames": _remoting(remoting_frames.half_frames, is_slow=True),
    "remoting-half-prefixes": _remoting(remoting_frames.half_prefixes, is_slow=True),
    "remoting-unfinished-frames": _remoting(remoting_frames.unfinished_frames),
    "remoting-huge-lengths": _remoting(remoting_frames.huge_lengths),
    "remoting-header-bombs": _remoting(remoting_frames.header_bombs),
    "remoting-unread-routes": _remoting(remoting_frames.unread_routes),
    "remoting-unread-pulls": _remoting(remoting_frames.unread_pulls),
    "remoting-pipelined": _remoting(remoting_frames.pipelined_requests),
    "remoting-answers-to-nothing": _remoting(remoting_frames.answers_to_nothing),
    "remoting-reset-connections": _remoting(remoting_frames.reset_connections),
    "remoting-many-connections": _remoting(remoting_frames.many_connections, descriptors=DESCRIPTORS_FEW),
    "remoting-many-clients": _remoting(remoting_requests.heartbeats_of_many_clients),
    "remoting-many-members": _remoting(remoting_requests.connections_of_many_clients),
    "remoting-many-groups": _remoting(remoting_requests.heartbeats_of_many_groups),
    "remoting-subscriptions": _remoting(remoting_requests.heartbeats_that_differ),
    "remoting-long-polls": _remoting(remoting_requests.long_polls),
    "remoting-locks": _remoting(remoting_requests.locks_of_many_clients),
    "remoting-offsets": _remoting(remoting_requests.offsets_of_many_groups),
    "remoting-compressed-bombs": _remoting(remoting_requests.compressed_bombs),
    "remoting-tiny-messages": _remoting(remoting_requests.tiny_messages),
    "remoting-control-characters": _remoting(remoting_requests.control_characters),
    "remoting-topics-in-a-loop": _remoting(remoting_requests.topics_in_a_loop, topics_counted=True),
    "remoting-unanswered-handshakes": _at_remoting(tls.unanswered_handshakes),
    "remoting-slow-handshakes": _at_remoting(tls.slow_handshakes),
    "remoting-handshakes-given-up": _at_remoting(tls.handshakes_given_up),
}


def environment(attack: Attack) -> dict[str, str]:
    """That of the server: ours, without settings that a developer may have there, and what the attack wants."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TERNMQ_")}
    return {**kept, **attack.environment}
