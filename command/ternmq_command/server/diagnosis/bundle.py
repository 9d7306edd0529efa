"""Writes the file of `ternmq diag`: a tar.gz of texts in which secrets are masked.

Masked      each text as a whole; in JSON each value together with its name (`ternmq_common.process.masking`).
Manifest    `manifest.json`: for each part its file, what it is, and the problem if it could not be read.
"""

import io
import json
import tarfile
from collections.abc import Callable
from datetime import datetime
from importlib import metadata
from pathlib import Path

from ternmq_command.terminal.failures import CommandFailure, ServerUnreachable
from ternmq_common.process.masking import mask_secrets
from ternmq_common.process.private_files import create_file

Text = Callable[[], str]
PART_BYTES_MAX = 16 << 20
FOLDER = "ternmq-diag"


class DiagnosticBundle:
    """Collects the parts of the file one by one; a part that fails does not stop the others."""

    def __init__(self, created: datetime) -> None:
        self._created = created
        self._texts: dict[str, str] = {}
        self._parts: list[dict[str, str | None]] = []
        self.is_unreachable = False

    def add_text(self, file: str, what: str, text: Text) -> None:
        """Add a text as `file`."""
        self._add_part(file, what, lambda: mask_secrets(text()))

    def _add_part(self, file: str, what: str, text: Text) -> None:
        problem = None
        try:
            self._texts[file] = text()[:PART_BYTES_MAX]
        except ServerUnreachable as failure:
            self.is_unreachable, problem = True, failure.what
        except CommandFailure as failure:
            problem = failure.what
        except OSError as error:
            problem = error.strerror or str(error)
        self._parts.append({"file": file, "what": what, "problem": None if problem is None else mask_secrets(problem)})

    def add_json(self, file: str, what: str, value: Callable[[], object]) -> None:
        """Add a JSON value as `file`."""
        # Masked before encoding: in the JSON text, a name like a secret's would mask the comma after a null too.
        self._add_part(file, what, lambda: json.dumps(mask_json_secrets(value()), indent=2))

    def manifest_parts(self) -> list[dict[str, str | None]]:
        return list(self._parts)

    def write(self, path: Path) -> None:
        """Create the file, which must not exist, readable only by this user; raises OSError."""
        manifest = {
            "made": self._created.isoformat(timespec="seconds"),
            "by": f"ternmq {metadata.version('ternmq')}",
            "parts": self._parts,
        }
        with create_file(path) as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
            for name, text in {"manifest.json": json.dumps(manifest, indent=2), **self._texts}.items():
                data = text.encode(errors="backslashreplace")
                entry = tarfile.TarInfo(f"{FOLDER}/{name}")
                entry.size, entry.mtime, entry.mode = len(data), int(self._created.timestamp()), 0o600
                archive.addfile(entry, io.BytesIO(data))


def mask_json_secrets(value: object, name: str = "") -> object:
    """Return a JSON value in which each text is masked by itself and by its name."""
    if isinstance(value, dict):
        return {mask_secrets(str(key)): mask_json_secrets(each, str(key)) for key, each in value.items()}
    if isinstance(value, list):
        return [mask_json_secrets(each, name) for each in value]
    if isinstance(value, str):
        return mask_secrets(f"{name}={mask_secrets(value)}").removeprefix(f"{name}=")
    return value
