"""Integer types with ranges, for numbers from another process: what is outside is refused."""

from typing import Annotated

from msgspec import Meta

UInt32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]
UInt63 = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
