"""What a browser without a script does, by HTTP: it parses pages, fills in forms and sends them, and follows links.

Hidden   is what the attribute `hidden` says, and all but the summary of a `details` that is not open: that is in no
         text, and neither its buttons nor its fields are found.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from html.parser import HTMLParser
from http.client import HTTPConnection
from typing import Self
from urllib.parse import urlencode, urljoin, urlsplit

from tests.support.console_site import SECRET, Site
from tests.support.json_api import Answer

_VOID = {"br", "hr", "img", "input", "link", "meta"}
_INLINE = {"a", "b", "bdi", "button", "code", "em", "i", "input", "label", "select", "span", "strong", "time"}
_CELLS = {"td", "th"}
_FIELDS = ("input", "select", "textarea")
_REDIRECTS_MAX = 5


class Element:
    """One of a page; `attributes` of a field have what was filled in."""

    def __init__(self, tag: str, attributes: dict[str, str], parent: "Element | None" = None) -> None:
        self.tag, self.attributes, self.parent = tag, attributes, parent
        self.children: list[Element | str] = []

    def __iter__(self) -> "Iterator[Element]":
        """All that are inside, in order."""
        for child in self.children:
            if isinstance(child, Element):
                yield child
                yield from child

    def find_all(self, *tags: str, **attributes: str) -> "list[Element]":
        """Those of these tags, if any are given, that have all of the attributes."""
        return [
            each for each in self if (not tags or each.tag in tags) and attributes.items() <= each.attributes.items()
        ]

    def find(self, *tags: str, **attributes: str) -> "Element":
        found = self.find_all(*tags, **attributes)
        assert found, f"no {tags or ''} {attributes or ''} in {self.text!r}"
        return found[0]

    @property
    def text(self) -> str:
        """What one can see, with line feeds around blocks and tabs between cells."""
        blanks = re.sub(r"[ \r\f\v]+", " ", "".join(self._pieces()))
        return re.sub(r" ?\n[ \n]*", "\n", re.sub(r" ?\t[ \t]*", "\t", blanks)).strip()

    def _pieces(self) -> Iterator[str]:
        around = "" if self.tag in _INLINE else "\t" if self.tag in _CELLS else "\n"
        yield around
        for child in self.children:
            if isinstance(child, str):
                yield child if self.tag in ("pre", "textarea") else re.sub(r"\s+", " ", child)
            elif not child._is_hidden():
                yield from child._pieces()
        yield around

    @property
    def name(self) -> str:
        """What it is called: by its label, or by what is in it."""
        return self.attributes.get("aria-label") or self.text

    @property
    def ancestors(self) -> "Iterator[Element]":
        at = self.parent
        while at is not None:
            yield at
            at = at.parent

    @property
    def is_visible(self) -> bool:
        return not any(each._is_hidden() for each in (self, *self.ancestors))

    def _is_hidden(self) -> bool:
        is_folded = self.parent is not None and self.parent.tag == "details" and self.tag != "summary"
        return (
            "hidden" in self.attributes
            or self.tag in ("head", "script")
            or (is_folded and self.parent is not None and "open" not in self.parent.attributes)
        )

    @property
    def value(self) -> str:
        """What a field holds."""
        if self.tag == "textarea" and "value" not in self.attributes:
            return "".join(each for each in self.children if isinstance(each, str)).removeprefix("\n")
        if self.tag == "select":
            options = self.find_all("option")
            chosen = [each for each in options if "selected" in each.attributes] or options[:1]
            return chosen[-1].attributes.get("value", chosen[-1].text)
        return self.attributes.get("value", "on" if self.attributes.get("type") == "checkbox" else "")

    @property
    def is_checked(self) -> bool:
        return "checked" in self.attributes

    def choose(self, value: str) -> None:
        """The option of a select."""
        options = self.find_all("option")
        assert value in [each.attributes.get("value", each.text) for each in options], value
        for each in options:
            each.attributes.pop("selected", None)
            if each.attributes.get("value", each.text) == value:
                each.attributes["selected"] = ""

    def rows(self) -> "list[list[Element]]":
        """The cells of each row of the tables inside, without their heads."""
        return [row.find_all(*_CELLS) for body in self.find_all("tbody") for row in body.find_all("tr")]


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = self._at = Element("document", {})

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs}, self._at)
        self._at.children.append(element)
        if tag not in _VOID:
            self._at = element

    def handle_endtag(self, tag: str) -> None:
        assert self._at.tag == tag, f"</{tag}> ends <{self._at.tag}>"
        assert self._at.parent is not None
        self._at = self._at.parent

    def handle_data(self, data: str) -> None:
        self._at.children.append(data)


def parse(page: str) -> Element:
    """The page as a tree; each element has to be ended."""
    parser = _Parser()
    parser.feed(page)
    parser.close()
    return parser.root


class Window:
    """One visitor, with his cookies; `path`, `status` and `page` are those of the page that he is at."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.cookies: dict[str, str] = {}
        self.path, self.status, self.source, self.page = "", 0, "", Element("document", {})

    # --- requests

    def fetch(self, path: str, form: Sequence[tuple[str, str]] | None = None, **headers: str) -> Answer:
        """An answer as it is, for which one stays at the page; `form` is posted if it is given."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookies:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        body = None
        if form is not None:
            body, sent["content-type"] = urlencode(form), "application/x-www-form-urlencoded"
        with closing(HTTPConnection(self._site.http, timeout=20)) as connection:
            connection.request("GET" if form is None else "POST", path, body, sent)
            response = connection.getresponse()
            for cookie in response.headers.get_all("set-cookie", ()):
                name, _, value = cookie.partition(";")[0].partition("=")
                self.cookies[name] = value.strip('"')
            named = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, named, response.read())

    def post(self, path: str, form: dict[str, str], **headers: str) -> int:
        """The status of a form that is on no page."""
        return self.fetch(path, list(form.items()), **headers).status

    def go(self, path: str, form: Sequence[tuple[str, str]] | None = None) -> Self:
        """Show that page, or the one to which it leads."""
        answer = self.fetch(path, form)
        for _ in range(_REDIRECTS_MAX):
            if answer.status != 303:
                break
            path = urljoin(path, answer.headers["location"])
            answer = self.fetch(path)
        assert answer.status != 303, "a page leads on and on"
        self.path, self.status = path, answer.status
        self.source = answer.body.decode()
        self.page = parse(self.source)
        return self

    def sign_in(self, name: str, secret: str = SECRET) -> None:
        self.fill("Access key", name)
        self.fill("Secret", secret)
        self.press("Sign in")

    @property
    def token(self) -> str:
        """That of the session, as the forms of the page have it."""
        return self.page.find("input", name="token").value

    # --- what is there

    @property
    def main(self) -> Element:
        return self.page.find("main")

    @property
    def text(self) -> str:
        return self.main.text

    @property
    def notice(self) -> str:
        return self.page.find(role="status").text

    @property
    def error(self) -> str:
        return self.page.find(role="alert").text

    def region(self, name: str) -> Element:
        found = [each for each in self.page.find_all(role="region") if each.name == name]
        assert found, f"no {name!r} among {[each.name for each in self.page.find_all(role='region')]}"
        return found[0]

    def rows(self, region: str = "") -> list[list[str]]:
        """The texts of a table's rows; those of the page's main part without a region."""
        found = self.region(region) if region else self.main
        return [[cell.text for cell in row] for row in found.rows()]

    def column(self, index: int, region: str = "") -> list[str]:
        return [row[index] for row in self.rows(region)]

    def field(self, label: str) -> Element:
        """The first visible one of that label, or else of one that has it in it."""
        labels = {each.attributes["for"]: each.text for each in self.page.find_all("label") if "for" in each.attributes}
        named = [
            (each.attributes.get("aria-label") or labels.get(each.attributes.get("id", ""), ""), each)
            for each in self.page.find_all(*_FIELDS)
            if each.is_visible
        ]
        found = [each for name, each in named if name == label] or [
            each for name, each in named if label.lower() in name.lower()
        ]
        assert found, f"no field {label!r} among {[name for name, _ in named]}"
        return found[0]

    def link(self, name: str, inside: Element | None = None) -> Element:
        links = [each for each in (inside or self.page).find_all("a") if each.is_visible]
        found = [each for each in links if each.name == name] or [each for each in links if name in each.name]
        assert found, f"no link {name!r} among {[each.name for each in links]}"
        return found[0]

    def has_link(self, name: str) -> bool:
        return any(name in each.name for each in self.page.find_all("a"))

    @property
    def summaries(self) -> list[str]:
        return [each.text for each in self.page.find_all("summary")]

    # --- what one does

    def follow(self, name: str, inside: Element | None = None) -> Self:
        """The link of that name, or else the first that has it in its name."""
        return self.go(self.address_of(self.link(name, inside)))

    def address_of(self, link: Element) -> str:
        url = urlsplit(urljoin(f"http://{self._site.http}{self.path}", link.attributes["href"]))
        assert url.netloc == self._site.http, link.attributes["href"]
        return url.path + (f"?{url.query}" if url.query else "")

    def open(self, summary: str) -> None:
        """Unfold what is behind it."""
        found = next(each for each in self.page.find_all("summary") if summary in each.text)
        assert found.parent is not None
        found.parent.attributes["open"] = ""

    def fill(self, label: str, text: str) -> None:
        field = self.field(label)
        if field.tag == "select":
            field.choose(text)
        else:
            field.attributes["value"] = text

    def check(self, *labels: str, is_checked: bool = True) -> None:
        for label in labels:
            self.field(label).attributes.pop("checked", None)
            if is_checked:
                self.field(label).attributes["checked"] = ""

    def press(self, name: str, **instead: str) -> Self:
        """Send the form of the first visible button of that name; `instead` are values that no page offers."""
        return self.go(*self.request_of(name, **instead))

    def request_of(self, name: str, **instead: str) -> tuple[str, Sequence[tuple[str, str]] | None]:
        """Path and form that a press of the button sends."""
        buttons = [each for each in self.page.find_all("button") if each.is_visible]
        button = next((each for each in buttons if each.name == name), None)
        assert button is not None, f"no button {name!r} among {[each.name for each in buttons]}"
        form = next(each for each in button.ancestors if each.tag == "form")
        pairs = [(field, instead.get(field, value)) for field, value in _pairs(form)]
        pairs += [(field, value) for field, value in instead.items() if field not in dict(pairs)]
        path = button.attributes.get("formaction") or form.attributes["action"]
        if form.attributes["method"] == "post":
            return path, pairs
        return f"{path}?{urlencode(pairs)}", None


def _pairs(form: Element) -> list[tuple[str, str]]:
    return [
        (each.attributes["name"], re.sub(r"\r?\n", "\r\n", each.value))
        for each in form.find_all(*_FIELDS)
        if "name" in each.attributes and (each.attributes.get("type") != "checkbox" or each.is_checked)
    ]
