"""A real browser for tests: what it logs is looked at, and pages are held to what axe-core knows of accessibility."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, expect, sync_playwright

from tests.support.console_site import ROOT, SECRET

AXE_VERSION = "4.14.1"
TIMEOUT_MS = 15_000
expect.set_options(timeout=TIMEOUT_MS)
MISSING = "There is no such thing"
WIDE = ("light", 1280, 900)
# A window is in the last one at the beginning, and again after all.
LOOKS = (("dark", 320, 640), WIDE)
# What has its size from the window has it after the next frame.
CHANGE_THEME = """theme => new Promise(resolve => {
    if (document.documentElement.dataset.theme !== theme) { document.getElementById("theme").click(); }
    requestAnimationFrame(() => requestAnimationFrame(resolve)); })"""
# Without the passes, whose elements take longest.
RUN_AXE = """axe.run(document, {reporter: "no-passes"}).then(told =>
    told.violations.map(each => `${each.id}: ${each.nodes.map(node => node.html).join(", ")}`))"""


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

    def sign_in(self, name: str = ROOT, secret: str = SECRET) -> None:
        self.fill("Access key", name)
        self.fill("Secret", secret)
        self.press("Sign in")

    def press(self, name: str) -> None:
        """The button of that name."""
        self.page.get_by_role("button", name=name, exact=True).click()

    def fill(self, label: str, text: str) -> None:
        """Of two fields with that label the one that can be seen."""
        self.page.get_by_label(label).locator("visible=true").first.fill(text)

    def open(self, summary: str) -> None:
        """Unfold what is behind it."""
        self.page.locator("summary").filter(has_text=summary).click()

    def follow(self, link: str, *, exact: bool = False) -> None:
        self.page.get_by_role("link", name=link, exact=exact).click()

    def tab_to(self, script: str) -> None:
        """Press the key until that is true of `at`, the element that has the keyboard."""
        for _ in range(60):
            self.page.keyboard.press("Tab")
            if self.page.evaluate(f"(at => {script})(document.activeElement)"):
                return
        raise AssertionError(f"the keyboard does not come to {script}")

    def tab_to_text(self, text: str) -> None:
        self.tab_to(f"at.textContent.trim() === {text!r}")

    def region(self, name: str) -> Locator:
        return self.page.get_by_role("region", name=name, exact=True)

    def confirmation(self, what: str) -> Locator:
        """The field for the name of what is to be changed."""
        return self.page.get_by_label(f"Type the name of the {what} to confirm").locator("visible=true")

    @property
    def text(self) -> str:
        return self.page.locator("main").inner_text()

    @property
    def notice(self) -> str:
        return self.page.get_by_role("status").inner_text()

    @property
    def error(self) -> str:
        return self.page.get_by_role("alert").first.inner_text()

    def look_at(self, pages: Mapping[str, str]) -> None:
        """Each page, by its path, says that, and can be used by everybody."""
        found = {}
        for path, wanted in pages.items():
            self.go(path)
            assert wanted in self.text, path
            found[path] = self.violations()
        assert {path: said for path, said in found.items() if said} == {}

    def violations(self, looks: Sequence[tuple[str, int, int]] = LOOKS) -> list[str]:
        """What axe-core finds when everything is unfolded, and whether the page is wider than its window."""
        folded = self.page.evaluate_handle("[...document.querySelectorAll('details:not([open])')]")
        folded.evaluate("all => all.forEach(each => each.open = true)")
        self.page.evaluate(_axe())
        found: list[str] = []
        for theme, width, height in looks:
            self.page.set_viewport_size({"width": width, "height": height})
            self.page.evaluate(CHANGE_THEME, theme)
            found += self.page.evaluate(RUN_AXE)
            wider = self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            found += [f"{wider} px wider than the {theme} window"] if wider > 0 else []
        folded.evaluate("all => all.forEach(each => each.open = false)")
        return found


@contextmanager
def visit(
    browser: Browser, address: str, *, theme: str = "light", zone: str = "UTC", scripts: bool = True
) -> Iterator[Visit]:
    """A window whose user likes that theme and lives in that zone; when it is closed nothing must have been logged."""
    _, width, height = WIDE
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if theme == "dark" else "light",
        timezone_id=zone,
        java_script_enabled=scripts,
    )
    visiting = Visit(context.new_page(), address)
    try:
        yield visiting
        assert visiting.said == [], visiting.said
    finally:
        context.close()
