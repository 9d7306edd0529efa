"""The documents as a site: it is built without a warning, all of the client is in it, and dead links are refused."""

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ternmq
from tools.site.docstrings import with_definitions
from tools.site.pages import separated, with_links

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_site_is_built_strictly_and_has_every_public_name_of_the_client(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    environ = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=100, check=False)
    assert built.returncode == 0, built.stderr
    shown = set(re.findall(r'id="ternmq\.(\w+)"', (tmp_path / "reference/python.html").read_text()))
    assert set(ternmq.__all__) <= shown
    assert "ternmq topic create" in (tmp_path / "reference/command.html").read_text()


@pytest.mark.parametrize("link", ["gone.md", "../gone", "#nowhere", "other.md#nowhere"])
def test_a_dead_link_is_refused(tmp_path: Path, link: str, caplog: pytest.LogCaptureFixture) -> None:
    from mkdocs.commands.build import build
    from mkdocs.config import load_config
    from mkdocs.exceptions import Abort

    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "other.md").write_text("# Other\n")
    (folder / "page.md").write_text(f"# Page\n[leads nowhere]({link})\n")
    # The pages that the hooks add have links of their own, to pages that are not in this folder.
    config = load_config(str(ROOT / "mkdocs.yml"), docs_dir=str(folder), site_dir=str(tmp_path / "site"), hooks=[])
    with pytest.raises(Abort, match="1 warnings in strict mode"):
        build(config)
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert f"'{link}'" in warning


@pytest.mark.parametrize(
    ("place", "written", "expected"),
    [
        ("index.md", "[The command](docs/command.md#x)", "[The command](command.md#x)"),
        ("clients.md", "[test kit](../clients/python/ternmq/testing/README.md)", "[test kit](testing.md)"),
        ("reference/python.md", "[Clients](../clients.md)", "[Clients](../clients.md)"),
        ("kubernetes.md", "[Cluster](../docs/cluster.md)", "[Cluster](cluster.md)"),
        ("clients.md", "[Go](../clients/examples/go)", "Go (`clients/examples/go`)"),
        ("clients.md", "[`clients/examples/go`](../clients/examples/go)", "`clients/examples/go`"),
        ("clients.md", "[gone](../gone)", "[gone](../gone)"),
        ("clients.md", "[out](https://example.com)", "[out](https://example.com)"),
    ],
)
def test_links_lead_to_pages_of_the_site_or_name_what_is_not_there(place: str, written: str, expected: str) -> None:
    assert with_links(written, place) == expected


def test_lists_and_tables_are_such_after_a_line_of_text_but_not_in_code() -> None:
    page = "Text\n- one\n  more\n- two\n\nText\n| a |\n|---|\n| b |\n```\nText\n- code\n```"
    expected = "Text\n\n- one\n  more\n- two\n\nText\n\n| a |\n|---|\n| b |\n```\nText\n- code\n```"
    assert "\n".join(separated(page.splitlines())) == expected


def test_columns_of_docstrings_are_definitions() -> None:
    columns = "delay        how long after\n             its sending\npriority     from 0 on\n"
    definitions = "\n`delay`\n:   how long after\n    its sending\n\n`priority`\n:   from 0 on\n"
    rest = "\nThe rest.\n\n    code  = 1"
    assert with_definitions(f"One of:\n\n{columns}{rest}") == f"One of:\n\n{definitions}{rest}"
