"""Numbers that another process may give: what is outside is no such number."""

from typing import Annotated

from msgspec import Meta

UInt32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]
UInt63 = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
