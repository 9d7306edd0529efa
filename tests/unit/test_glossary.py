"""Log lines, errors, help texts, names and comments have none of the words that the glossary rules out."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
PACKAGES = ("broker", "clients/python", "command", "common", "console", "proxy", "registry", "rpc", "runtime", "spark")
# In no text that a user sees, whatever it is about.
NEVER = ("anew", "told", "tells", "asked", "said", "looked at", "whoever", "for who", "to who")
# In no name, comment or docstring either: what was said or asked has a name of its own, as arguments or a request.
NEVER_IN_CODE = re.compile(r"(?<![a-z])(anew|told|asked|said)(?![a-z])", re.IGNORECASE)
# Fields of the admin protocol and of `ternmq.admin` keep their names, and so does the code that passes them on.
ADMINISTRATION = ("/admin/", "ternmq_console/api/", "ternmq_command/server/proxy_admin.py", "diagnosis/status.py")
LOGS = re.compile(r"(^|\.)_?log(ger)?\.(debug|info|warning|error|critical|exception)$")
ERRORS = re.compile(r"(Error|Refused|Failed|WrongOption|Exception)$|(^|\._?)(refuse|fail)$")
TERMS_MIN = 60


def terms() -> dict[str, list[str]]:
    """Each term of the glossary, with the words that are not to be used for it."""
    rows = re.findall(r"^\| (?!term \|)([^|-][^|]*) \| ([^|]+) \| ?([^|]*)\|$", GLOSSARY.read_text(), re.MULTILINE)
    return {
        term.strip(): [word.strip() for word in ruled_out.split(",") if word.strip()] for term, _, ruled_out in rows
    }


def texts(source: str) -> Iterator[tuple[int, str]]:
    """The lines and texts of log calls, errors and help."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            everything = [*node.args, *(keyword.value for keyword in node.keywords)]
            if not (LOGS.search(called) or ERRORS.search(called)):
                everything = [keyword.value for keyword in node.keywords if keyword.arg == "help"]
            for part in everything:
                for found in ast.walk(part):
                    if isinstance(found, ast.Constant) and isinstance(found.value, str):
                        yield found.lineno, found.value


def names_and_comments(source: str) -> Iterator[tuple[int, str]]:
    """The names of the code, in words, and its comments and docstrings without what is in backticks."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], re.sub(r"(?<=[a-z])(?=[A-Z])", "_", token.string)
        elif token.type == tokenize.COMMENT or (token.type == tokenize.STRING and token.string.startswith('"""')):
            yield token.start[0], re.sub(r"`[^`]*`", "", token.string)


def ruled_out(text: str, words: re.Pattern[str]) -> str | None:
    found = words.search(text)
    return None if found is None else found[0]


def pattern() -> re.Pattern[str]:
    words = {word for ruled in terms().values() for word in ruled} | set(NEVER)
    return re.compile("|".join(rf"\b{re.escape(word.strip())}\b" for word in sorted(words)), re.IGNORECASE)


def test_the_glossary_has_terms_with_one_meaning_each() -> None:
    lines = [line for line in GLOSSARY.read_text().splitlines() if line.startswith("| ")]
    assert len(terms()) >= TERMS_MIN
    assert len(terms()) == sum(not line.startswith("| term |") for line in lines), (
        "each row is read, and no term is twice"
    )


def test_a_ruled_out_word_is_found() -> None:
    source = '_log.warning("the index is made anew: %s", why)\nraise ValueError("fine")\n'
    found = [(line, ruled_out(text, pattern())) for line, text in texts(source)]
    assert found[0] == (1, "made anew")
    assert [word for _, word in found[1:] if word] == []


def sources(package: str) -> Iterator[Path]:
    for path in sorted((ROOT / package).rglob("*.py")):
        if not (".venv" in path.parts or path.name.endswith(("_pb2.py", "_pb2_grpc.py"))):
            yield path


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("class AskedProducer: ...\n", "Asked"),
        ("was_told_fifo = 1\n", "told"),
        ("# it begins anew\n", "anew"),
        ('"""The one that `asked`, and what it said."""\n', "said"),
        ("masked = 1  # `asked` is a field\n", None),
    ],
)
def test_a_word_is_found_in_names_and_comments(source: str, found: str | None) -> None:
    words = [match[1] for _, text in names_and_comments(source) if (match := NEVER_IN_CODE.search(text)) is not None]
    assert words == ([] if found is None else [found])


@pytest.mark.parametrize("package", [*PACKAGES, "benchmarks", "tools"])
def test_names_and_comments_have_none_of_the_words(package: str) -> None:
    wrong = []
    for path in sources(package):
        if any(part in path.as_posix() for part in ADMINISTRATION):
            continue
        for line, text in names_and_comments(path.read_text()):
            if (match := NEVER_IN_CODE.search(text)) is not None:
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {match[1]!r} in {text[:100]!r}")
    assert wrong == [], "\n".join(wrong)


@pytest.mark.parametrize("package", PACKAGES)
def test_texts_for_users_have_the_words_of_the_glossary(package: str) -> None:
    words, wrong = pattern(), []
    for path in sources(package):
        for line, text in texts(path.read_text()):
            if (word := ruled_out(text, words)) is not None:
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {word!r} in {text[:100]!r}")
    assert wrong == [], "\n".join(wrong)
