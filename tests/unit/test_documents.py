"""The documents name what is there: every link of every page leads somewhere, and the first page stays one."""

import contextlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
PROTOCOL = ROOT / "docs" / "protocol"
CITATION = re.compile(r"`(\w+)\.md, ([^`]*)`")
NUMBERED = re.compile(r"^## (\d+)\. (.+)$", re.MULTILINE)
# Pages that are in no checkout.
ELSEWHERE = re.compile(r"\b(?:producer|consumer|design|style)\.md\b|shared[/]contract")
FIRST_PAGE_WORDS_MAX = 1_050
MAP = ROOT / "ARCHITECTURE.md"
MAP_WORDS_MAX = 1_500
GUARANTEES = ROOT / "docs" / "guarantees.md"
DESIGN = ROOT / "docs" / "design"
FOR_DEVELOPERS = [MAP, ROOT / "CONTRIBUTING.md", GUARANTEES, *sorted(DESIGN.glob("*.md"))]
# A file as a page names it: the end of its path, with or without the folder that a package is named after.
PACKAGE = re.compile(r"/(?:ternmq_\w+|pyspark_ternmq)/")
FILE = re.compile(r"`([\w./-]+\.(?:py|md|json|toml|yml))`")


def files(pattern: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", pattern],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for name in listed.stdout.splitlines() if (path := ROOT / name).is_file()]


def pages() -> list[Path]:
    return files("*.md")


def texts() -> Iterator[tuple[Path, str]]:
    """Every text file that people write, with its path."""
    for path in files("*"):
        if (ROOT / "tests" / "data") not in path.parents:
            with contextlib.suppress(UnicodeDecodeError):
                yield path, path.read_text()


def anchors(page: Path) -> set[str]:
    """As GitHub and GitLab make them."""
    titles = HEADING.findall(FENCED.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    dead = []
    for link in LINK.findall(CODE.sub("", page.read_text())):
        if link.startswith(("https://", "http://")):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    assert not dead


def test_every_page_can_be_reached_from_the_first() -> None:
    reached = {ROOT / "README.md"}
    waiting = list(reached)
    while waiting:
        page = waiting.pop()
        for link in LINK.findall(CODE.sub("", page.read_text())):
            target = (page.parent / link.partition("#")[0]).resolve()
            target = target / "README.md" if target.is_dir() else target
            if target.suffix == ".md" and target.exists() and target not in reached:
                reached.add(target)
                waiting.append(target)
    assert {page for page in pages() if page.parent.name in ("docs", "protocol", "design")} <= reached


def test_every_citation_of_the_protocol_names_a_page_and_its_heading() -> None:
    headings = {page.stem: {title for _, title in NUMBERED.findall(page.read_text())} for page in PROTOCOL.glob("*.md")}
    cited = [(path, *citation) for path, text in texts() for citation in CITATION.findall(text)]
    assert len(cited) > 80
    assert [citation for citation in cited if citation[2] not in headings.get(citation[1], ())] == []


@pytest.mark.parametrize("page", sorted(PROTOCOL.glob("*.md")), ids=lambda page: page.name)
def test_the_headings_of_a_protocol_page_are_numbered_and_each_is_one(page: Path) -> None:
    found = NUMBERED.findall(page.read_text())
    assert [int(number) for number, _ in found] == list(range(1, len(found) + 1))
    assert len({title for _, title in found}) == len(found) == page.read_text().count("\n## ")


def test_nothing_cites_a_page_that_is_in_no_checkout() -> None:
    assert [path for path, text in texts() if ELSEWHERE.search(text)] == []


def test_the_first_page_stays_a_page() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= FIRST_PAGE_WORDS_MAX


def test_the_map_stays_a_map() -> None:
    assert len(MAP.read_text().split()) <= MAP_WORDS_MAX


@pytest.mark.parametrize("page", FOR_DEVELOPERS, ids=lambda page: page.name)
def test_every_file_that_a_page_for_developers_names_exists(page: Path) -> None:
    paths = {f"/{path.relative_to(ROOT)}" for path in files("*")}
    paths |= {PACKAGE.sub("/", path) for path in paths}
    named = {name for name in FILE.findall(page.read_text()) if not name.startswith("build/")}
    assert {name for name in named if not any(path.endswith(f"/{name}") for path in paths)} == set()


def test_every_guarantee_names_a_test_that_holds_it() -> None:
    _, listed = GUARANTEES.read_text().split("\n## Guarantees\n")
    promises = listed.split("\n## ")[0].strip().removeprefix("- ").split("\n- ")
    assert len(promises) > 5
    assert [promise for promise in promises if "`tests/" not in promise] == []
