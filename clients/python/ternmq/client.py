"""The base of producers and consumers: life cycle, sessions, routes, heartbeats, isolation of failed endpoints.

Life        new, running, closing, closed; a closed client can't be started again
Sessions    one for each endpoint in a known route; a route is used only after its endpoints' sessions were tried
Isolation   an endpoint on which a call failed is used last until it answers a heartbeat or a route query, or accepts
            settings
Events      `on_connection` is called while the client runs, in the order of the events, by a task that ends with it
Forks       a client belongs to the process that created it; in a child it raises NotRunning, and closing it does
            nothing
Threads     a client belongs to the event loop of its start: in another one it raises NotRunning; nothing here is safe
            to call from another thread (`ternmq.blocking` is)
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import Enum
from types import TracebackType
from typing import Self, Unpack

from ternmq.arguments import check_options
from ternmq.connections import connection as calls
from ternmq.connections.connection import GrpcConnection, RequestT, ResponseT, RpcMethod
from ternmq.connections.connection_events import ConnectionEvent, ConnectionEvents, ConnectionState
from ternmq.connections.endpoints import Endpoints
from ternmq.connections.identity import ClientIdentity, create_user_agent
from ternmq.connections.isolated_endpoints import IsolatedEndpoints, log_level_of
from ternmq.connections.route import RouteCache, TopicRoute
from ternmq.connections.session import SessionOwner, TelemetrySession
from ternmq.connections.tls import tls_options
from ternmq.errors import ClientError, NotRunning, TransportError, Unauthorized, check_status
from ternmq.hooks import HookChain
from ternmq.options import ClientOptions, Timing
from ternmq.process.forks import fork_count
from ternmq.process.own_loop import OwnEventLoop
from ternmq.process.stacks import format_stacks
from ternmq.times.backoff import RECONNECT_BACKOFF
from ternmq.times.durations import seconds_above_0
from ternmq.times.wire_time import to_duration
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc

logger = logging.getLogger(__name__)

REQUEST_TIMEOUT_S = 3.0
# Longer than a request: the server may look up topics and groups before it answers the first settings.
HANDSHAKE_EXTRA_S = 3.0
START_ATTEMPTS = 3


class ClientLife(Enum):
    """The state of a client."""

    NEW = "was not started"
    RUNNING = "is running"
    CLOSING = "is being closed"
    CLOSED = "was closed"


class Client:
    """The base of `Producer`, `SimpleConsumer`, `PushConsumer` and `PullConsumer`, and of consumers of lite topics.

    Invariants: sessions and connections exist only while running or closing; `_isolated` has endpoints, never queues.
    """

    client_type: pb.ClientType
    _repeats_calls = True
    """Whether a connection repeats calls that a server refused without looking at them."""

    def __init__(
        self,
        endpoint: str,
        group: str | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        check_options(type(self), options)
        self._access_point = Endpoints.parse(endpoint)
        self._group = group
        self._tls = tls_options(options.get("tls", False))
        self._request_timeout_s = seconds_above_0("request_timeout", options.get("request_timeout", REQUEST_TIMEOUT_S))
        self._timing = options.get("timing") or Timing()
        self._hooks = HookChain(options.get("hooks", ()))
        self._identity = ClientIdentity(options.get("credentials"), read_again_s=self._timing.credentials_s)
        self._life = ClientLife.NEW
        self._own_loop = OwnEventLoop()
        self.closed = asyncio.Event()
        """Set when the client was closed."""
        self._forks = fork_count()
        self._connections: dict[Endpoints, GrpcConnection] = {}
        self._sessions: dict[Endpoints, TelemetrySession] = {}
        self._isolated = IsolatedEndpoints(self._identity.client_id, self._report_connection)
        self._tasks = BackgroundTasks(logger)
        self._events = ConnectionEvents(options.get("on_connection"), self._tasks)
        self._routes = RouteCache(self._fetch_route)

    @property
    def client_id(self) -> str:
        """The name by which the server knows this client."""
        return self._identity.client_id

    async def start(self) -> Self:
        """Fetch the routes, exchange settings with every server, and begin the heartbeats."""
        self._check_process()
        if self._life is not ClientLife.NEW:
            raise NotRunning(f"this {type(self).__name__} {self._life.value}; create a new one")
        self._own_loop.bind_loop()
        self._life = ClientLife.RUNNING
        try:
            await self._start_work()
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        """Finish what is in flight, notify the servers, and close the connections. May be called twice."""
        if (
            self._life in {ClientLife.CLOSING, ClientLife.CLOSED} or self._forks != fork_count()
        ):  # the connections are the parent's
            return
        self._own_loop.check_loop(self)
        was_running = self._life is ClientLife.RUNNING
        self._life = ClientLife.CLOSING
        try:
            if was_running:
                await self._finish_work()
        finally:
            await self._close_connections()
            self._life = ClientLife.CLOSED
            self.closed.set()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Methods that the kinds of clients override.

    def _create_settings(self) -> pb.Settings:
        """Create the settings for the servers; subclasses add what they publish or subscribe to."""
        return pb.Settings(
            client_type=self.client_type,
            access_point=self._access_point.to_proto(),
            request_timeout=to_duration(self._request_timeout_s),
            user_agent=create_user_agent(),
        )

    def _apply_settings(self, connection: GrpcConnection, settings: pb.Settings) -> None:
        """Apply the settings that a server answered; subclasses use those that concern them."""

    async def _answer_command(
        self, connection: GrpcConnection, command: rpc.TelemetryCommand
    ) -> rpc.TelemetryCommand | None:
        """Answer a command of the server at `connection`; None if there is no answer."""
        kind = command.WhichOneof("command")
        if kind == "print_thread_stack_trace_command":
            trace = rpc.ThreadStackTrace(
                nonce=command.print_thread_stack_trace_command.nonce, thread_stack_trace=format_stacks()
            )
            return rpc.TelemetryCommand(status=pb.Status(code=pb.OK), thread_stack_trace=trace)
        if kind == "verify_message_command":
            result = rpc.VerifyMessageResult(nonce=command.verify_message_command.nonce)
            status = pb.Status(code=pb.NOT_IMPLEMENTED, message="only push consumers can verify a message")
            return rpc.TelemetryCommand(status=status, verify_message_result=result)
        logger.debug("%s: the command %s is ignored", self.client_id, kind)
        return None

    async def _start_work(self) -> None:
        """Start the work of a client; the base only starts the housekeeping."""
        timing = self._timing
        self._tasks.start(self._run_every(timing.heartbeat_s, self._send_heartbeats))
        self._tasks.start(self._run_every(timing.route_refresh_s, self._refresh_routes))
        self._tasks.start(self._run_every(timing.settings_s, self._send_settings))

    async def _finish_work(self) -> None:
        """Let work in flight end, within a limited time."""

    # Methods that the kinds of clients use.

    def _check_process(self) -> None:
        if self._forks != fork_count():
            raise NotRunning(
                f"this {type(self).__name__} was created before the process was forked; create a new one in the child"
            )

    def _check_running(self) -> None:
        self._check_process()
        if self._life is not ClientLife.RUNNING:
            raise NotRunning(f"this {type(self).__name__} {self._life.value}")
        self._own_loop.check_loop(self)

    async def _call_endpoint(
        self, endpoints: Endpoints, method: RpcMethod[RequestT, ResponseT], request: RequestT, timeout_s: float = 0.0
    ) -> ResponseT:
        """Send one request to one endpoint, which is isolated if it doesn't answer."""
        connection = self._connection_to(endpoints)
        with self._isolated.watch_call(endpoints):
            return await connection.call_unary(method, request, timeout_s=timeout_s or self._request_timeout_s)

    def _is_connected(self, endpoints: Endpoints) -> bool:
        """Whether a call to these endpoints is sent at once, and not when there is a connection."""
        return self._connection_to(endpoints).is_ready

    def _connection_to(self, endpoints: Endpoints) -> GrpcConnection:
        self._check_process()
        connection = self._connections.get(endpoints)
        if connection is None:
            if self._life not in {ClientLife.RUNNING, ClientLife.CLOSING}:
                self._check_running()
            connection = self._connections[endpoints] = GrpcConnection(
                endpoints, self._identity, self._tls, repeats=self._repeats_calls
            )
        return connection

    def _report_connection(self, endpoints: Endpoints, error: ClientError | None) -> None:
        if self._life is ClientLife.RUNNING:  # the caller of `close` expects that connections end
            state = ConnectionState.CONNECTED if error is None else ConnectionState.LOST
            self._events.add_event(ConnectionEvent(self.client_id, str(endpoints), state, error))

    async def _run_every(self, period_s: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(period_s)
            try:
                await work()
            except ClientError as error:
                logger.log(log_level_of(error), "%s: %s", self.client_id, error)
            except Exception:
                logger.exception("%s: housekeeping failed", self.client_id)

    async def _send_settings(self) -> None:
        for session in list(self._sessions.values()):
            try:
                await session.send_settings()
            except ClientError as error:
                logger.log(log_level_of(error), "%s: settings were not sent: %s", self.client_id, error)

    # Routes and sessions.

    async def _fetch_route(self, topic: str) -> TopicRoute:
        request = rpc.QueryRouteRequest(topic=pb.Resource(name=topic), endpoints=self._access_point.to_proto())
        # An endpoint that no route names gets no heartbeats. An answer to a request from before the loss proves
        # nothing.
        was_lost, changes = self._access_point in self._isolated, self._isolated.changes_of(self._access_point)
        response = await self._call_endpoint(self._access_point, calls.QUERY_ROUTE, request)
        if was_lost:
            self._isolated.note_found(self._access_point, changes)
        check_status(response.status)
        route = TopicRoute.from_proto(topic, response.message_queues, self._access_point)
        await self._open_sessions(route.all_endpoints)
        return route

    async def _refresh_routes(self) -> None:
        """Fetch all routes again, and end the sessions with servers that no route names any more."""
        await self._routes.refresh_routes()
        if not self._routes.has_fetches:  # else a session may belong to a route that is being fetched
            gone = self._sessions.keys() - self._routes.all_endpoints
            await self._drop_sessions({endpoints: self._sessions[endpoints] for endpoints in gone})

    async def _fetch_first_routes(self, topics: Iterable[str]) -> None:
        """Fetch the routes without which a client can't start; a server that is just starting gets a few attempts."""
        for topic in topics:
            for attempt in range(1, START_ATTEMPTS + 1):
                try:
                    await self._routes.get_route(topic)
                    break
                except ClientError as error:
                    if attempt == START_ATTEMPTS or not error.retryable:
                        raise
                    await asyncio.sleep(RECONNECT_BACKOFF.delay_s(attempt))

    async def _open_sessions(self, all_endpoints: Sequence[Endpoints]) -> None:
        """Open sessions where there are none; one server of several may be away, but not all."""
        for endpoints in all_endpoints:
            if endpoints not in self._sessions:
                self._sessions[endpoints] = TelemetrySession(
                    self._connection_to(endpoints),
                    SessionOwner(self._create_settings, self._apply_settings, self._answer_command, self._isolated),
                    handshake_timeout_s=self._request_timeout_s + HANDSHAKE_EXTRA_S,
                )
        waited = {one: self._sessions[one] for one in all_endpoints if not self._sessions[one].is_settled}
        failures: list[ClientError] = []
        for session in waited.values():
            try:
                await session.wait_opened()
            except TransportError as error:  # the session has noted the loss
                failures.append(error)
            except ClientError as error:  # a refusal: it must be seen, even if other servers accept
                failures.insert(0, error)
        if failures and (not isinstance(failures[0], TransportError) or len(failures) == len(all_endpoints)):
            await self._drop_sessions(waited)
            raise failures[0]

    async def _drop_sessions(self, sessions: Mapping[Endpoints, TelemetrySession]) -> None:
        for endpoints, session in sessions.items():
            if self._sessions.get(endpoints) is session:
                del self._sessions[endpoints]
            await session.close()

    async def _send_heartbeats(self) -> None:
        greeted = [endpoints for endpoints, session in self._sessions.items() if session.is_settled]
        await asyncio.gather(*(self._send_heartbeat(endpoints) for endpoints in greeted))

    async def _send_heartbeat(self, endpoints: Endpoints) -> None:
        request = rpc.HeartbeatRequest(client_type=self.client_type, group=self._group_proto())
        was_lost, changes = endpoints in self._isolated, self._isolated.changes_of(endpoints)
        try:
            response = await self._call_endpoint(endpoints, calls.HEARTBEAT, request)
            check_status(response.status)
        except ClientError as error:
            if isinstance(error, Unauthorized):  # which is logged once, as the loss of a connection
                self._isolated.note_lost(endpoints, error, changes)
            else:
                logger.log(log_level_of(error), "%s: heartbeat: %s", self.client_id, error)
            if error.code == pb.UNRECOGNIZED_CLIENT_TYPE:  # a server that was restarted has forgotten this client
                await self._send_settings()
        else:
            if was_lost:
                self._isolated.note_found(endpoints, changes)

    def _group_proto(self) -> pb.Resource | None:
        return pb.Resource(name=self._group) if self._group else None

    # The end.

    async def _close_connections(self) -> None:
        self._routes.close()
        await self._tasks.stop()
        await asyncio.gather(*(self._notify_termination(endpoints) for endpoints in self._sessions))
        await asyncio.gather(*(session.close() for session in self._sessions.values()))
        await asyncio.gather(*(connection.close() for connection in self._connections.values()))
        self._sessions.clear()
        self._connections.clear()

    async def _notify_termination(self, endpoints: Endpoints) -> None:
        request = rpc.NotifyClientTerminationRequest(group=self._group_proto())
        try:
            await self._connection_to(endpoints).call_unary(
                calls.NOTIFY_CLIENT_TERMINATION, request, timeout_s=self._request_timeout_s
            )
        except ClientError as error:
            logger.debug("%s: goodbye: %s", self.client_id, error)
