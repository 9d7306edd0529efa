"""Limits of bodies and schemas, which come from untrusted users."""

VALUES_MAX = 1_000_000
"""Items of lists and entries of maps of one body, each with all that it holds; about 100 MB as Python's objects."""
SCHEMA_BYTES_MAX = 1024 * 1024
DEPTH_MAX = 40
"""How deep types may be in each other."""
FIELDS_MAX = 5_000
"""Fields of a schema, counted wherever its types are used: a few types that use each other twice are millions."""


class WrongSchema(ValueError):
    """A schema that is none, or that can't be columns; the message says where."""


class BrokenBody(Exception):
    """Why a body can't be decoded."""


class ValueBudget:
    """Counts the values of one body, before there are objects for them."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = VALUES_MAX

    def spend_values(self, values: int) -> None:
        """BrokenBody if there are too many by now."""
        self._left -= values
        if self._left < 0:
            raise BrokenBody(f"it has more than {VALUES_MAX:,} values")


class SchemaNesting:
    """Walks down the types of a schema: WrongSchema for what is too deep, too wide or inside itself."""

    def __init__(self) -> None:
        self._open: list[str] = []
        self._fields = 0

    def enter_type(self, name: str, path: str, *, fields: int = 0) -> None:
        """Go into a type; `name` identifies a type that may contain others, '' is any other type."""
        if name and name in self._open:
            raise WrongSchema(f"{path}: {name} contains itself, and a column can't")
        self._open.append(name)
        self._fields += fields
        if len(self._open) > DEPTH_MAX:
            raise WrongSchema(f"{path}: types are more than {DEPTH_MAX} deep")
        if self._fields > FIELDS_MAX:
            raise WrongSchema(f"{path}: there are more than {FIELDS_MAX:,} fields")

    def leave_type(self) -> None:
        self._open.pop()
