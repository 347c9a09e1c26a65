"""Of writers that race for a key exactly one wins, and no byte of the others is ever visible."""

from pathlib import Path

import pytest

from tests.kit.rounds import rounds
from tests.system.conditional_races import DATABASES, count, race, raced_server

pytestmark = pytest.mark.slow

KEYS = rounds(100, long=2000)
INCREMENTS = rounds(10, long=100)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each, marks=() if each == "sqlite" else pytest.mark.extended)
        for each in DATABASES
    ],
)
def test_of_the_racers_for_a_key_one_wins_and_a_counter_is_exact(name: str, tmp_path: Path) -> None:
    with raced_server(tmp_path, name) as server:
        raced = race(server, KEYS)
        assert not raced.violations, raced
        counted = count(server, INCREMENTS)
        assert not counted.violations, counted
