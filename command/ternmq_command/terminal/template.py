"""Templates of `--format`, such as `'{topic} {offset} {body}'`: a line for each record.

{name}       the field of that name in the output of `--json`: empty for null, a list with commas, pairs of names and
             values as JSON. `body` of a message that is not UTF-8 is `base64:` and its base64;
             `body_base64` is there for each message.
{name.key}   one of those pairs: `{properties.region}`; empty if there is none.
{{ }}        braces; \\t \\n \\\\ are a tab, the end of a line, a backslash.

`str.format` would let a template reach into our objects, and pad to a width of a billion.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import click

from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.output import Record
from ternmq_command.terminal.printing import echo_lines, echo_raw
from ternmq_common.printable import escape_line

F = TypeVar("F", bound=Callable[..., Any])

TEMPLATE_CHARACTERS_MAX = 10_000
BODY, BODY_BASE64 = "body", "body_base64"
_ESCAPES = {r"\t": "\t", r"\n": "\n", r"\\": "\\", "{{": "{", "}}": "}"}
# Compiled when it is needed: most calls of commands with the option have no template.
_PIECE = r"\{\{|\}\}|\\[tn\\]|\{(?P<field>[^{}]*)\}|(?P<text>[^{}\\]+|\\)|(?P<wrong>.)"

if TYPE_CHECKING:
    TemplateType = click.ParamType["Template"]
else:  # older releases of click can't be subscripted
    TemplateType = click.ParamType


class TemplateField(NamedTuple):
    """A field in a template, and the key after its dot, if there is one."""

    name: str
    key: str | None


class Template:
    """A parsed template: literal texts and fields, in the order of the line."""

    def __init__(self, pieces: Sequence[str | TemplateField]) -> None:
        self._pieces = pieces

    @classmethod
    def parse(cls, text: str, known: Sequence[str]) -> Self:
        """Parse a template; raises ValueError, which says what is wrong or which fields there are."""
        if len(text) > TEMPLATE_CHARACTERS_MAX:
            raise ValueError(f"it has more than {TEMPLATE_CHARACTERS_MAX:,} characters")
        return cls([_parse_piece(found, known) for found in re.finditer(_PIECE, text, re.DOTALL)])

    def write_record(self, record: Record, *, raw: bool = False) -> None:
        """Write the record on a line, escaped for a terminal unless `raw` is true."""
        (echo_raw if raw else echo_lines)(self.render_line(record, raw=raw))

    def write_records(self, records: Iterable[Record]) -> int:
        """Write each record on a line as it comes; return their number."""
        count = 0
        for count, record in enumerate(records, start=1):  # noqa: B007 - it is the last one's
            self.write_record(record)
        return count

    def render_line(self, record: Record, *, raw: bool = False) -> str:
        return "".join(
            piece if isinstance(piece, str) else _format_value(_field_value(record, piece), raw=raw)
            for piece in self._pieces
        )


def format_option(*known: str) -> Callable[[F], F]:
    """Add `--format`, for records with these fields."""
    return click.option(
        "--format",
        "template",
        type=_TemplateType(known),
        help="Print a line for each by this template, of fields of --json: '{offset} {body}'; braces are {{ and }}.",
    )


def check_one_form(template: Template | None, *, as_json: bool) -> None:
    if template is not None and as_json:
        raise WrongUsage("give --json or --format, not both")


class _TemplateType(TemplateType):
    name = "TEMPLATE"

    def __init__(self, known: Sequence[str]) -> None:
        self._known = known

    def convert(self, value: str | Template, param: click.Parameter | None, ctx: click.Context | None) -> Template:
        if isinstance(value, Template):
            return value
        try:
            return Template.parse(value, self._known)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _parse_piece(found: re.Match[str], known: Sequence[str]) -> str | TemplateField:
    if found["wrong"] is not None:
        raise ValueError(f"a {found['wrong']} stands alone at character {found.start() + 1}; write it twice")
    if found["field"] is None:
        return _ESCAPES.get(found[0], found[0])
    name, dot, key = found["field"].partition(".")
    if name not in known:
        raise ValueError(f"there is no field {name!r}; there are {', '.join(known)}")
    return TemplateField(name, key if dot else None)


def _field_value(record: Record, field: TemplateField) -> object:
    if field.name == BODY and BODY_BASE64 in record:
        return f"base64:{record[BODY_BASE64]}"
    if field.name == BODY_BASE64 and BODY in record:
        import base64

        return base64.b64encode(str(record[BODY]).encode(errors="surrogateescape")).decode()
    value = record.get(field.name)
    if field.key is None:
        return value
    return value.get(field.key) if isinstance(value, dict) else None


def _format_value(value: object, *, raw: bool) -> str:
    text = _plain_text(value)
    return text if raw else escape_line(text)


def _plain_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)
