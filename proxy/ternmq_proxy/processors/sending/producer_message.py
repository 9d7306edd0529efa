"""A message as its producer sent it, in plain values of no protocol.

Fronts create it from what they read; operations check and store it (`stored_form.py`). Times are nanoseconds since the
epoch, since a producer's time is delivered unchanged.
"""

from msgspec import Struct, field

from ternmq_proxy.processors.sending.compression import Compression


class ProducerMessage(Struct, kw_only=True):
    """One message of a send. Storing uses it up: operations change what is stored differently than sent.

    `namespace` is that in which the producer named the topic, the same for all messages of a send. `is_transaction`
    marks a half message; its other special fields don't count then. `delivery_ns`, `message_group`, `priority` and
    `lite_topic` make it a special message (`effective_type`); `None` or "" is none. `recovery_ms` is how long no
    transaction check is sent, 0 or less for the broker's default. `born_ns` None and an empty `born_host` are set by
    the server. `is_compressed`: the body has the form of `compression`; with `must_inflate` it is refused where others
    stay compressed, since its consumers could not read it. `unknown` and `unknown_system` are fields of the message and
    of its system properties that this server does not know, in protobuf's form; consumers get them.
    """

    topic: str
    body: bytes
    message_id: str
    namespace: str = ""
    tag: str = ""
    keys: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)
    is_transaction: bool = False
    delivery_ns: int | None = None
    message_group: str = ""
    priority: int | None = None
    lite_topic: str | None = None
    recovery_ms: int = 0
    trace_context: str | None = None
    born_ns: int | None = None
    born_host: str = ""
    is_compressed: bool = False
    compression: Compression = Compression.GZIP
    must_inflate: bool = False
    unknown: bytes = b""
    unknown_system: bytes = b""
