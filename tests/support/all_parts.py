"""One stand-in for all parts of a message service or shard."""

from typing import Self


class AllParts:
    """A service whose five parts are the service itself."""

    @property
    def sending(self) -> Self:
        return self

    consuming = reading = inspecting = administering = sending
