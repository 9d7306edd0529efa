"""The message of a supervisor to a process that it starts: one line of JSON on standard input."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ternmq_rpc.serving.sockets import UNIX

if TYPE_CHECKING:
    from ternmq_common.server_settings import ProcessSettings

S = TypeVar("S", bound="ProcessSettings")
BROKER = "broker"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlace:
    """The place of one process among those of a supervisor; a process that dies is replaced by another in the same
    place.

    `name` is its name in logs and metrics, `member` its name for brokers and telemetry collectors, `folder` the folder
    of all.
    """

    name: str
    member: str
    folder: Path
    is_restart: bool = False

    @property
    def own_folder(self) -> Path:
        return self.folder / self.name

    @property
    def http(self) -> str:
        """The address at which it answers health and metrics."""
        return f"{UNIX}{self.own_folder / 'http'}"

    @property
    def storage(self) -> str:
        """The address of the broker's storage service."""
        return f"{UNIX}{self.folder / BROKER / 'storage'}"


def encode_place(place: WorkerPlace, settings: "ProcessSettings") -> bytes:
    """Encode the line."""
    return msgspec.json.encode((place, settings), enc_hook=str) + b"\n"


def decode_place(line: bytes, kind: type[S]) -> tuple[WorkerPlace, S]:
    """Decode the line, with settings of that kind."""
    place, settings = msgspec.json.decode(line, type=tuple[WorkerPlace, kind], dec_hook=_create_path)  # type: ignore[valid-type]
    return place, settings


def _create_path(kind: type, text: Any) -> Any:  # noqa: ANN401 - msgspec's
    assert kind is Path
    return kind(text)
