"""Log lines, errors and help texts have none of the words that the glossary rules out."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
PACKAGES = ("broker", "clients/python", "command", "common", "console", "proxy", "registry", "rpc", "runtime", "spark")
# In no text that a user sees, whatever it is about.
NEVER = ("anew", "told", "tells", "looked at", "whoever", "for who", "to who")
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


@pytest.mark.parametrize("package", PACKAGES)
def test_texts_for_users_have_the_words_of_the_glossary(package: str) -> None:
    words, wrong = pattern(), []
    for path in sorted((ROOT / package).rglob("*.py")):
        if ".venv" in path.parts or path.name.endswith(("_pb2.py", "_pb2_grpc.py")):
            continue
        for line, text in texts(path.read_text()):
            if (word := ruled_out(text, words)) is not None:
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {word!r} in {text[:100]!r}")
    assert wrong == [], "\n".join(wrong)
