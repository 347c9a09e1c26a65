"""The frames mean what the rules say: both on the same random inputs."""

import random
from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual, assertSchemaEqual

from lakebed.formats.object_paths import ObjectPath, new_object_uid, new_partition
from lakebed.gc import frames, rules
from lakebed.gc.frames import JUDGED, PATHS, STORED
from lakebed.gc.rules import Judged, Look, State, StoredObject, Verdict

pytestmark = pytest.mark.timeout(300)

LOOK = Look(began_us=900, ended_us=1000, cutoff_us=500, closed_before_us=300, gap_us=100)


def stored(draw: random.Random, number: int) -> StoredObject:
    made_us = draw.randint(0, 999)
    return StoredObject(path_of(number, made_us), draw.randint(0, 9), draw.randint(0, 999), made_us)


def path_of(number: int, made_us: int) -> str:
    partition = new_partition(made_us, bytes(6))
    return str(ObjectPath("a0", "b", partition, new_object_uid(number, bytes(10))))


def state_of(draw: random.Random, objects: list[StoredObject]) -> State:
    chosen = draw.sample(objects, len(objects) // 2)
    judged = [_judged(draw, one) for one in chosen]
    return State(
        repository_uids=frozenset({"a0"}),
        began_us=0,
        closed_before_us=draw.randint(0, 400),
        commits=frozenset(),
        objects={one.stored.path: one for one in judged},
    )


def _judged(draw: random.Random, one: StoredObject) -> Judged:
    verdict = draw.choice(list(Verdict))
    found = draw.randint(700, 1100) if verdict is Verdict.CANDIDATE else None
    return Judged(one, verdict, found)


def row(judged: Judged) -> tuple[object, ...]:
    one = judged.stored
    return (
        one.path,
        one.size,
        one.born_us,
        one.made_us,
        judged.verdict.value,
        judged.found_us or 0,
    )


def listing(spark: SparkSession, objects: list[StoredObject]) -> DataFrame:
    rows = [(one.path, one.size, one.born_us, one.made_us) for one in objects]
    return spark.createDataFrame(rows, STORED)


def paths(spark: SparkSession, chosen: list[str]) -> DataFrame:
    return spark.createDataFrame([(path,) for path in chosen], PATHS)


def test_judging_and_what_comes_of_it(spark: SparkSession) -> None:
    draw = random.Random(7)
    objects = [stored(draw, number) for number in range(600)]
    unseen = [path_of(1000 + number, draw.randint(0, 999)) for number in range(50)]
    everything = [one.path for one in objects] + [*unseen, "repos/a0/branches/b/p/none"]
    committed, held = (draw.choices(everything, k=200) for _ in range(2))
    committed.append(f"{path_of(2000, 5)}\n")  # not a path of ours, so not looked for
    state = state_of(draw, objects)
    listed = [one for one in objects if not rules.is_closed(one, state)]
    saved = spark.createDataFrame([row(one) for one in state.objects.values()], JUDGED)

    named = {*committed, *rules.saved_commit_named(state)}
    expected = list(
        rules.judge(
            rules.looked_at(state, listed), committed=named, held=set(held), state=state, look=LOOK
        )
    )
    judged = frames.judge(
        frames.looked_at(saved, listing(spark, listed), state.closed_before_us),
        committed=paths(spark, committed).unionByName(frames.saved_commit_named(saved)),
        held=paths(spark, held),
        saved=saved,
        look=LOOK,
    )
    assertDataFrameEqual(judged, spark.createDataFrame([row(one) for one in expected], JUDGED))
    assert {one.verdict for one in expected} == set(Verdict)

    due = judged.where(frames.is_due(LOOK)).select("path").collect()
    expected_due = {one.stored.path for one in rules.due(expected, LOOK)}
    assert {found.path for found in due} == expected_due
    assert 0 < len(expected_due) < len(expected)

    after = replace(state, closed_before_us=LOOK.closed_before_us)
    kept = judged.where(frames.is_remembered(LOOK.closed_before_us)).select("path").collect()
    remembered = {one.stored.path for one in expected if rules.remembered(one, after)}
    assert {found.path for found in kept} == remembered


def test_nothing_at_all(spark: SparkSession) -> None:
    nothing = spark.createDataFrame([], JUDGED)
    judged = frames.judge(
        spark.createDataFrame([], STORED),
        committed=spark.createDataFrame([], PATHS),
        held=spark.createDataFrame([], PATHS),
        saved=nothing,
        look=LOOK,
    )
    assertSchemaEqual(judged.schema, JUDGED, ignoreNullable=True)
    assert judged.collect() == []


def test_what_is_known_is_left_out(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    found = spark.createDataFrame([("a", 1), ("b", 2), ("b", 3), ("c", 4)], "id string, n long")
    known = spark.createDataFrame([("a",), ("a",), ("x",)], "id string")
    expected = spark.createDataFrame([("b", 2), ("b", 3), ("c", 4)], "id string, n long")
    unknown = frames.unknown(found, known, "id")
    assertDataFrameEqual(unknown, expected)
    # Nothing that grows with commits goes through the driver.
    capsys.readouterr()
    unknown.explain()
    assert "SortMergeJoin" in capsys.readouterr().out
