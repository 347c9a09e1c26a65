"""The prose names things: few pointer words, and one form of messages."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from typer.main import get_command

from lakebed.clients import cli
from tests.kit.words import (
    ROOT,
    SOURCE,
    Share,
    comments,
    docstrings,
    helps,
    labels_of_page,
    messages,
    prose_of_page,
    python_files,
    sentences_of_page,
    share_of,
    texts_of_page,
)

pytestmark = pytest.mark.slow  # it parses every file

ALL_PERCENT: Final = 4.0
FILE_PERCENT: Final = 6.0
FILE_WORDS: Final = 150
FIRST_LINE_PERCENT: Final = 25.0
FIRST_LINE_WORDS: Final = 7
PAGES_PERCENT: Final = 5.0
MESSAGES_PERCENT: Final = 5.0

PAGES: Final = sorted([*ROOT.glob("*.md"), *ROOT.glob("design/*.md"), *ROOT.glob("docs/*.md")])


TREES: Final = cache(lambda path: ast.parse(path.read_text()))


def prose(path: Path) -> list[str]:
    """Return the docstrings and comments of a file."""
    return [*(text for _, text in docstrings(TREES(path))), *comments(path.read_text())]


def test_docstrings_and_comments_name_things() -> None:
    total = Share()
    above = {}
    for path in python_files():
        texts = prose(path)
        share = share_of(*texts)
        if share.words >= FILE_WORDS and share.percent > FILE_PERCENT:
            above[str(path.relative_to(SOURCE))] = round(share.percent, 1)
        for text in texts:
            total.add(text)
    assert above == {}
    assert total.percent <= ALL_PERCENT


def test_a_first_line_names_its_subject() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {first}"
        for path in python_files()
        for line, text in docstrings(TREES(path))
        if (first := text.strip().partition("\n")[0])
        and len(first.split()) >= FIRST_LINE_WORDS
        and share_of(first).percent >= FIRST_LINE_PERCENT
    ]
    assert found == []


def test_pages_name_things() -> None:
    assert share_of(*(prose_of_page(page.read_text()) for page in PAGES)).percent <= PAGES_PERCENT


def test_messages_name_things() -> None:
    texts = [text for path in python_files() for _, text in messages(TREES(path))]
    assert len(texts) > 500
    assert share_of(*texts).percent <= MESSAGES_PERCENT


UI_PAGES: Final = sorted(
    path for path in (SOURCE / "server/ui/app").rglob("*.js") if "vendor" not in path.parts
)


def test_texts_of_the_web_ui_name_things() -> None:
    texts = [text for path in UI_PAGES for text in texts_of_page(path.read_text())]
    assert len(texts) > 200
    assert share_of(*texts).percent <= MESSAGES_PERCENT


_BEGINNING: Final = re.compile(r"[A-Z0-9]")
_NAME: Final = re.compile(r"(lakefs|https?|bash|fish|zsh|lakebed|lakeFS)\b|-")
"""Beginnings that are written as they are: URIs, flags, programs."""


def has_form(text: str, *, ends: tuple[str, ...] = ()) -> bool:
    """Whether a text begins with a capital, and ends with a full stop only if it has to."""
    ending = text.endswith(ends) if ends else not text.endswith(".")
    return ending and bool(_BEGINNING.match(text) or _NAME.match(text))


@pytest.mark.parametrize("page", UI_PAGES, ids=lambda page: page.stem)
def test_a_label_of_the_web_ui_has_no_full_stop_and_a_sentence_has(page: Path) -> None:
    source = page.read_text()
    assert [text for text in labels_of_page(source) if not has_form(text)] == []
    ends = (".", ":", "VALUE")
    assert [text for text in sentences_of_page(source) if not has_form(text, ends=ends)] == []


def test_an_option_has_no_full_stop_and_a_command_has() -> None:
    found = [*helps(get_command(cli.app))]
    options = [text for _, _, texts in found for text in texts]
    assert [text for text in options if not has_form(text)] == []
    prose = [" ".join(part.split()) for _, text, _ in found for part in re.split(r"\n\s*\n", text)]
    sentences = [text for text in prose if not _NAME.match(text)]
    assert [text for text in sentences if not has_form(text, ends=(".", ":"))] == []
    assert (len(options) > 400, len(sentences) > 150) == (True, True)
    assert share_of(*options, *sentences).percent <= MESSAGES_PERCENT


NAMES: Final = (
    "Airflow",
    "Azure",
    "Azurite",
    "Cosmos",
    "Galera",
    "Google",
)
"""Names of products with which a message may begin."""


@pytest.mark.parametrize("package", sorted(path.name for path in SOURCE.iterdir() if path.is_dir()))
def test_a_message_begins_in_lower_case_and_ends_without_a_full_stop(package: str) -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {text}"
        for path in python_files(SOURCE / package)
        for line, text in messages(TREES(path))
        if (re.match(r"[A-Z][a-z]+\b", text) and not text.startswith(NAMES))
        or re.search(r"[^.]\.$", text.rstrip())
        or len(re.findall(r"[.;] [A-Za-z]", text)) > 1
    ]
    assert found == []


def test_what_is_counted() -> None:
    tree = ast.parse("""raise KeyError(f"there is nothing at {place}, or it was deleted")""")
    assert list(messages(tree)) == [(1, "there is nothing at VALUE, or it was deleted")]
    page = '<p>Of ${a ? "x" : html`<b>y</b>`} these.</p><h2 class="b">To <i>x</i></h2>'
    assert list(sentences_of_page(page)) == ["Of VALUE these."]
    assert list(labels_of_page('<${Form} title=${`Delete ${of}: yes`} why="Not at all" />')) == [
        "Delete VALUE: yes",
        "Not at all",
    ]
    share = share_of("Return what `those` hold, or None")
    assert (share.words, share.pointers) == (5, 1)
    assert list(comments("x = 1  # that one\ny = 2  # noqa: E501\n")) == ["that one"]
    assert list(texts_of_page('// "not this one"\nhtml`<p>Of <b>all the branches</b></p>`')) == [
        "all the branches"
    ]
