"""What the page about Python shows is what happens."""

import doctest
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "python.md"


def test_the_page_about_python_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = PAGE.read_text()
    blocks = re.findall(r"^```pycon\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 8
    monkeypatch.chdir(tmp_path)
    text = "\n".join(blocks)
    example = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    report: list[str] = []
    doctest.DocTestRunner().run(example, out=report.append, clear_globs=False)
    assert not report, "".join(report)
