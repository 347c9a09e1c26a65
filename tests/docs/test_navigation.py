"""The site has a place for every page."""

import re
from typing import Final

from tests.docs.console import ROOT

CONFIGURATION: Final = ROOT / "mkdocs.yml"


def test_every_page_is_in_the_navigation() -> None:
    # Pages that are named and not there are found by `make docs`, which fails then.
    named = re.findall(r": (\S+\.md)$", CONFIGURATION.read_text(), re.MULTILINE)
    assert len(named) == len(set(named))
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    notes = {str(path.relative_to(ROOT)) for path in (ROOT / "design").glob("*.md")}
    assert sorted((pages | notes) - set(named)) == []


def test_pages_load_no_external_resources() -> None:
    text = CONFIGURATION.read_text()
    assert "font: false" in text
    assert "http" not in text
