"""Joins the metrics of several processes in Prometheus's text format; a label names the process of each series. Pure.

A family, that is a name with its HELP and TYPE and all its samples, may be in a text only once. So the texts are joined
family by family.
"""

from collections.abc import Iterator, Mapping

LABEL = "worker"
_HEADS = ("# HELP ", "# TYPE ")


def join_metrics(texts: Mapping[str, str]) -> str:
    """Join `texts`, the metrics of the processes by name; every sample gets the label `worker` with that name."""
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for name, text in texts.items():
        known = set(heads)
        for family, line in _read_lines(text):
            if line.startswith("#"):
                if family not in known:
                    heads.setdefault(family, []).append(line)
            else:
                samples.setdefault(family, []).append(_add_label(line, name))
    families = dict.fromkeys([*heads, *samples])
    return "".join(f"{line}\n" for family in families for line in (*heads.get(family, ()), *samples.get(family, ())))


def _read_lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield each line with content, and its family."""
    family = ""
    for line in text.splitlines():
        if line.startswith(_HEADS):
            family = line.split(" ", 3)[2]
        if line.startswith(_HEADS) or (line and not line.startswith("#")):
            yield family, line


def _add_label(sample: str, name: str) -> str:
    """Add the label to the sample; names need no escapes."""
    end = min(place for place in (sample.find("{"), sample.find(" ")) if place >= 0)
    rest = sample[end:]
    labels = f'{LABEL}="{name}"'
    if rest.startswith("{"):
        return f"{sample[:end]}{{{labels}{'' if rest[1] == '}' else ','}{rest[1:]}"
    return f"{sample[:end]}{{{labels}}}{rest}"
