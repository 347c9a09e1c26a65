"""Deleting online loses data, in four ways; looking twice, again and again, does not."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

import pyarrow as pa
import pytest

from lakebed.reclaim.collector import columns, rules
from lakebed.reclaim.collector.columns import FOUND_SCHEMA, PATHS_SCHEMA
from lakebed.reclaim.collector.executors.read import STORED_SCHEMA
from lakebed.reclaim.collector.rules import Judged, ObservationTimes, ScannedObject, State, Verdict
from lakebed.testing.simulation.explore import first_failure
from tests.kit.rounds import rounds
from tests.simulation import gc_actors, gc_histories, gc_online

SEEDS = rounds(200, long=20_000, fast=20)
SEEDS_OF_COLUMNS = rounds(3, long=500, fast=1)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", gc_online.SCENARIOS)
def test_a_server_that_looks_again_and_again_loses_nothing(name: str) -> None:
    assert first_failure(f"tests.simulation.gc_online:{name}", range(SEEDS)) is None


@pytest.mark.parametrize("name", gc_online.SCENARIOS)
def test_a_server_that_deletes_at_once_loses_data(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gc_actors, "write", gc_online.hasty_write(gc_actors.write))
    if name == "linked_twice":
        # Nothing counts who names an object: so whoever has the address may name it again.
        monkeypatch.setattr(gc_actors, "may_link", lambda *_: True)
    failure = first_failure(f"tests.simulation.gc_online:{name}", range(5_000))
    assert failure is not None, "nobody noticed"
    assert failure.error.startswith("DataLossError")


def judge_by_columns(
    observed: Iterator[ScannedObject],
    *,
    committed: AbstractSet[str],
    uncommitted: AbstractSet[str],
    state: State | None,
    times: ObservationTimes,
) -> Iterator[Judged]:
    """What `rules.judge` does, by the columns that a server uses."""
    before = state.objects.values() if state is not None else ()
    found = [(one.stored.path, one.found_us) for one in before if one.found_us is not None]
    judged = columns.judge(
        _table(((one.path, one.size, one.born_us, one.made_us) for one in observed), STORED_SCHEMA),
        committed=_table(((path,) for path in committed), PATHS_SCHEMA),
        uncommitted=_table(((path,) for path in uncommitted), PATHS_SCHEMA),
        found=_table(iter(found), FOUND_SCHEMA),
        times=times,
    )
    for row in judged.to_pylist():
        stored = ScannedObject(row["path"], row["size"], row["born_us"], row["made_us"])
        yield Judged(stored, Verdict(row["verdict"]), row["found_us"] or None)


def _table(rows: Iterator[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    named = [dict(zip(schema.names, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(named, schema=schema)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "name",
    [
        *(f"gc_histories:{name}" for name in gc_histories.SCENARIOS),
        *(f"gc_online:{name}" for name in gc_online.SCENARIOS),
    ],
)
def test_a_server_that_judges_by_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "judge", judge_by_columns)
    assert first_failure(f"tests.simulation.{name}", range(SEEDS_OF_COLUMNS)) is None
