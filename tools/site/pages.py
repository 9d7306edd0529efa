"""Hooks of mkdocs that add the repository's pages outside docs/ to the site, and adapt links.

Pages are written for readers of the repository, in GitHub's Markdown: links go to files and folders that a site doesn't
have, and a list or table may follow a line of text directly. A link to a page of the site leads to that page; one to
another file of the repository becomes its path; one to nothing stays, for mkdocs to refuse.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
# Pages outside docs/, and their places in the site.
OUTSIDE = {
    "index.md": "README.md",
    "architecture.md": "ARCHITECTURE.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "kubernetes.md": "k8s/README.md",
    "store.md": "broker/STORE.md",
    "testing.md": "clients/python/ternmq/testing/README.md",
}
_PLACES = {ROOT / source: place for place, source in OUTSIDE.items()}
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"\s*(```|~~~)")
_ITEM = re.compile(r"([-*+]|\d+\.) ")


def on_files(files: "Files", config: "MkDocsConfig") -> "Files":
    from mkdocs.structure.files import File

    for place, source in OUTSIDE.items():
        files.append(File.generated(config, place, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: "Page", config: "MkDocsConfig", files: "Files") -> str:
    del config, files
    place = page.file.src_uri
    return "\n".join(separated(with_links(markdown, place).splitlines()))


def with_links(markdown: str, place: str) -> str:
    """Return the page at `place` of the site, with its links adapted to the site."""
    folder = (ROOT / OUTSIDE[place]).parent if place in OUTSIDE else (DOCS / place).parent

    def replaced(match: re.Match[str]) -> str:
        text, link = match.groups()
        name, hash_, anchor = link.partition("#")
        if not name or re.match(r"\w+:", name):
            return match[0]
        target = Path(os.path.normpath(folder / name))
        found = _place_of(target)
        if found is not None:
            way = os.path.relpath(found, Path(place).parent)
            return f"[{text}]({way}{hash_}{anchor})"
        if not target.exists():
            return match[0]
        path = f"`{target.relative_to(ROOT)}`"
        return path if text.strip("`") == path.strip("`") else f"{text} ({path})"

    return _LINK.sub(replaced, markdown)


def _place_of(target: Path) -> str | None:
    if target in _PLACES:
        return _PLACES[target]
    if target.suffix == ".md" and target.is_relative_to(DOCS) and target.exists():
        return str(target.relative_to(DOCS))
    return None


def separated(lines: list[str]) -> Iterator[str]:
    """Yield the lines with an empty one before each list and table, which Python's Markdown needs and GitHub's
    doesn't."""
    is_code, previous = False, ""
    for line in lines:
        if _FENCE.match(line):
            is_code = not is_code
        elif not is_code and previous.strip() and _begins(line, previous):
            yield ""
        yield line
        previous = line


def _begins(line: str, previous: str) -> bool:
    if previous.startswith(" "):
        return False  # the end of an item of several lines
    if line.startswith("|"):
        return not previous.startswith("|")
    return bool(_ITEM.match(line)) and not _ITEM.match(previous)
