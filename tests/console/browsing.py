"""A real browser for tests: what it logs is looked at, and pages are held to what axe-core knows of accessibility."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

AXE_VERSION = "4.14.1"
TIMEOUT_MS = 15_000
expect.set_options(timeout=TIMEOUT_MS)
LIGHT_AND_WIDE, DARK_AND_NARROW = ("light", 1280, 900), ("dark", 320, 640)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's."""
    path = shutil.which("chromium")
    assert path, "there is no chromium; tests/support/install_browser.sh gets it"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@cache
def _axe() -> str:
    cache_folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return (cache_folder / "ternmq" / f"axe-core-{AXE_VERSION}" / "axe.min.js").read_text()


class Visit:
    """One window at a server; `said` is what its pages logged, which is nothing if all is well."""

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.address = page, address
        self.said: list[str] = []
        page.set_default_timeout(TIMEOUT_MS)
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("dialog", lambda dialog: self.said.append(f"a dialog: {dialog.message}"))

    def _note(self, message: ConsoleMessage) -> None:
        # What the server refuses is not the page's fault.
        if "Failed to load resource" not in message.text:
            self.said.append(message.text)

    def go(self, path: str) -> None:
        self.page.goto(f"http://{self.address}{path}")

    @property
    def path(self) -> str:
        return self.page.url.removeprefix(f"http://{self.address}")

    def press(self, name: str) -> None:
        """The button of that name."""
        self.page.get_by_role("button", name=name, exact=True).click()

    def fill(self, label: str, text: str) -> None:
        """Of two fields with that label the one that can be seen."""
        self.page.get_by_label(label).locator("visible=true").first.fill(text)

    def open(self, summary: str) -> None:
        """Unfold what is behind it."""
        self.page.locator("summary").filter(has_text=summary).click()

    @property
    def text(self) -> str:
        return self.page.locator("main").inner_text()

    @property
    def notice(self) -> str:
        return self.page.get_by_role("status").inner_text()

    @property
    def error(self) -> str:
        return self.page.get_by_role("alert").first.inner_text()

    def violations(self) -> list[str]:
        """What axe-core finds, and whether the page is wider than its window."""
        self.page.evaluate(_axe())
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        told = [f"{each['id']}: {[node['html'] for node in each['nodes']]}" for each in found["violations"]]
        wider = self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        return [*told, *([f"{wider} px wider than the window"] if wider > 0 else [])]


@contextmanager
def visit(
    browser: Browser, address: str, *, theme: str = "light", width: int = 1280, height: int = 900, scripts: bool = True
) -> Iterator[Visit]:
    """A window of that size; when it is closed nothing must have been logged."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if theme == "dark" else "light",
        java_script_enabled=scripts,
    )
    visiting = Visit(context.new_page(), address)
    try:
        yield visiting
        assert visiting.said == []
    finally:
        context.close()
