"""The pages of docs/reference say what the code says."""

import pytest

from lakebed.auth import Action
from tests.docs.reference import FOLDER, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_as_the_code_writes_it(name: str) -> None:
    assert (FOLDER / name).read_text() == PAGES[name](), "run `make docs-reference`"


def test_nothing_else_lies_there() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(PAGES)


def test_every_action_is_there() -> None:
    page = PAGES["permissions.md"]()
    assert [each for each in Action if f"| `{each}` |" not in page] == []
