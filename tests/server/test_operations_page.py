"""The settings that docs/operations.md names exist, with the defaults that it shows."""

import re
from pathlib import Path
from typing import Final

import pytest

from lakebed.kv.pool import POOL_SIZE
from lakebed.server.settings import ServerSettings

PAGE: Final = Path(__file__).parents[2] / "docs" / "operations.md"
UNITS: Final = {"MiB": 1 << 20, "GiB": 1 << 30}


def rows() -> list[tuple[str, str]]:
    """Return the names and defaults of all tables of settings."""
    row = r"^\| (`[a-z_]+\.[a-z_]+`[^|]*) \| ([^|]*?) \|"
    return re.findall(row, PAGE.read_text(), re.MULTILINE)


def value_of(text: str) -> object:
    number, _, unit = text.partition(" ")
    if number.isdecimal():
        return int(number) * UNITS.get(unit, 1)
    words: dict[str, object] = {"none": None, "true": True, "false": False}
    return words.get(text, text.strip("`"))


def test_there_are_tables_of_settings() -> None:
    assert len(rows()) > 8


@pytest.mark.parametrize(("names", "defaults"), rows())
def test_a_setting_exists_with_its_default(names: str, defaults: str) -> None:
    keys = re.findall(r"`([a-z_]+)\.([a-z_]+)`", names)
    shown = [value_of(text) for text in defaults.split(", ")]
    found = [getattr(getattr(ServerSettings(), section), key) for section, key in keys]
    assert [None if value == () else value for value in found] == shown


def test_the_size_of_the_pool() -> None:
    assert f"| `?pool_size=` in a `postgresql://` URL | {POOL_SIZE} |" in PAGE.read_text()
