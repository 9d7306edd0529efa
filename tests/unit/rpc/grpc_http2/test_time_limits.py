"""What a client may leave undone, and for how long."""

from ternmq_rpc.grpc_http2 import frames as h2
from ternmq_rpc.grpc_http2.frames import ErrorCode
from ternmq_rpc.serving.budgets import BODY_BYTES_PER_S, ConnectionBudgets
from ternmq_rpc.serving.time_limits import IDLE_WHEN_CROWDED_S, TimeLimits
from tests.unit.rpc.grpc_http2.conversation import GREETING, Served, data, headers

BUDGETS = ConnectionBudgets(
    header_timeout_s=10, body_timeout_s=30, output_timeout_s=60, idle_s=600, keepalive_s=120, keepalive_timeout_s=20
)


class Watched(Served):
    """A connection that is looked at each second, unless it is quiet."""

    def __init__(self, *, greeted: bool = True) -> None:
        self._quiet_until = 0.0
        super().__init__(BUDGETS, greeted=greeted)
        self._limits = TimeLimits(self.now)
        self.late: list[int] = []
        self.passed = 0

    def hear(self, *sent: bytes) -> "Served":
        self._quiet_until = 0.0
        return super().hear(*sent)

    def send(self) -> None:
        self._quiet_until = 0.0
        super().send()

    def wait(self, seconds: float, *, crowded: bool = False) -> "Watched":
        end = self.now + seconds
        while self.now < end and self.machine.failure is None:
            self.now += 1.0
            if self.now < self._quiet_until and not crowded:
                self.passed += 1
                continue
            self.late += [call.number for call in self._limits.check_limits(self.machine, self.now, crowded=crowded)]
            self._quiet_until = self._limits.quiet_until(self.machine)
        self.send()
        return self

    def ping_for(self, seconds: int) -> None:
        """Give a sign of life each 100 seconds."""
        for _ in range(0, seconds, 100):
            self.hear(h2.encode_frame(h2.PING, 0, 0, bytes(8)))
            self.wait(100)

    @property
    def limit(self) -> str | None:
        return None if self.machine.failure is None else self.machine.failure.limit


def test_a_greeting_must_come() -> None:
    silent = Watched(greeted=False)
    assert silent.wait(10).limit is None
    assert silent.wait(3).limit == "header_timeout"
    assert silent.goaway == ErrorCode.SETTINGS_TIMEOUT


def test_half_a_greeting_is_none() -> None:
    slow = Watched(greeted=False)
    for byte in GREETING[:14]:
        slow.hear(bytes((byte,))).wait(1)  # type: ignore[attr-defined]
    assert slow.limit == "header_timeout"


def test_a_header_block_must_become_whole() -> None:
    slow = Watched()
    slow.hear(h2.encode_frame(h2.HEADERS, 0, 1, b"\x83"))
    for _ in range(14):
        slow.hear(h2.encode_frame(h2.CONTINUATION, 0, 1, b"\x86"))
        slow.wait(1)
    assert slow.limit == "header_timeout"


def test_a_frame_must_become_whole_but_there_may_always_be_a_half_one() -> None:
    busy = Watched()
    ping = h2.encode_frame(h2.PING, 0, 0, bytes(8))
    busy.hear(headers(1), ping[:5])
    for _ in range(30):
        busy.hear(ping[5:], ping[:5])
        busy.wait(1)
    assert (busy.limit, busy.late[:1]) == (None, [])
    assert busy.wait(12).limit == "header_timeout"


def test_a_request_must_come() -> None:
    slow = Watched()
    slow.hear(headers(1), headers(3), data(3, b"whole"))
    assert slow.wait(30).late == []
    assert slow.wait(1).late == [1]


def test_a_large_request_may_take_longer() -> None:
    slow = Watched()
    slow.hear(headers(1), data(1, bytes(20 * BODY_BYTES_PER_S), end=False)[: 10 * BODY_BYTES_PER_S])
    assert slow.wait(38).late == []
    assert slow.wait(3).late != []


def test_a_conversation_may_wait_but_not_within_a_message() -> None:
    talk = Watched()
    talk.hear(headers(1))
    talk.machine.begin_conversation(talk.machine.streams[1])
    for _ in range(10):
        talk.hear(h2.encode_frame(h2.PING, 0, 0, bytes(8)))
        talk.wait(60)
    assert (talk.late, talk.limit) == ([], None)
    talk.hear(data(1, bytes(100), end=False)[:50])
    talk.hear(data(1, bytes(100), end=False)[50:60])
    assert talk.wait(32).late != []


def test_a_client_that_reads_nothing_loses_its_connection() -> None:
    deaf = Watched()
    deaf.hear(headers(1), data(1, b""), h2.settings_frame({h2.SettingId.INITIAL_WINDOW_SIZE: 0}))
    call = deaf.machine.streams[1]
    deaf.machine.send_headers(call)
    deaf.machine.send_messages(call, [bytes(100)])
    for _ in range(5):  # it reads a little now and then
        deaf.wait(50)
        deaf.hear(h2.window_frame(1, 1))
    assert deaf.limit is None
    assert deaf.wait(65).limit == "output_timeout"


def test_a_connection_without_calls_is_told_before_it_is_closed() -> None:
    idle = Watched()
    idle.wait(600)
    assert (idle.goaway, idle.limit) == (None, None)
    idle.wait(1)
    assert (idle.goaway, idle.machine.leaving) == (ErrorCode.NO_ERROR, True)
    assert idle.wait(1).limit == "idle"


def test_with_as_many_connections_as_there_may_be_it_is_closed_sooner() -> None:
    assert Watched().wait(IDLE_WHEN_CROWDED_S + 3, crowded=True).limit == "idle"


def test_a_call_keeps_its_connection() -> None:
    used = Watched()
    used.hear(headers(1), data(1, b""))
    used.ping_for(2000)
    assert (used.limit, used.passed) == (None, 20 * 99)


def test_a_connection_is_idle_from_the_end_of_its_last_call_on() -> None:
    used = Watched()
    used.hear(headers(1), data(1, b""))
    used.ping_for(700)
    used.hear(h2.encode_frame(h2.RST_STREAM, 0, 1, bytes(4)))
    used.wait(599)
    assert (used.goaway, used.limit) == (None, None)
    used.wait(3)
    assert used.goaway == ErrorCode.NO_ERROR


def test_who_is_silent_is_asked_for_a_sign_of_life() -> None:
    silent = Watched()
    silent.hear(headers(1), data(1, b""))
    silent.wait(119)
    assert silent.said(h2.PING) == []
    silent.wait(2)
    assert len(silent.said(h2.PING)) == 1
    silent.hear(h2.encode_frame(h2.PING, h2.ACK, 0, bytes(8)))
    silent.wait(121)
    assert (len(silent.said(h2.PING)), silent.limit) == (2, None)
    assert silent.wait(25).limit == "keepalive"
