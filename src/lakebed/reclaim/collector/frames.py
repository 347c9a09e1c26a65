"""Definition of garbage on Spark: functions from frames to frames.

They are equivalent to the functions of `rules`. Judging is one shuffle by path: objects, and the
references from commits, staging, uploads and earlier runs, are combined and grouped. So nothing
needs to be unique beforehand or to fit into memory.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StringType, StructField, StructType

from lakebed.formats.object_paths import MADE_FROM, WHOLE_PATH_PATTERN
from lakebed.reclaim.collector.rules import COMMIT_REFERENCED, ObservationTimes, Verdict

PATHS: Final = StructType([StructField("path", StringType(), nullable=False)])
"""Paths of referenced objects; may contain duplicates."""

STORED: Final = StructType(
    [
        StructField("path", StringType(), nullable=False),
        StructField("size", LongType(), nullable=False),
        StructField("born_us", LongType(), nullable=False),
        StructField("made_us", LongType(), nullable=False),
    ]
)
"""Objects as listed: `rules.ScannedObject`."""

JUDGED: Final = StructType(
    [
        *STORED.fields,
        StructField("verdict", StringType(), nullable=False),
        StructField("found_us", LongType(), nullable=False),
    ]
)
"""Objects with the verdicts of an observation: `rules.Judged`, with 0 for no time."""

_COMMIT_REFERENCED: Final = [verdict.value for verdict in COMMIT_REFERENCED]

_FACTS: Final = ("size", "born_us", "made_us", "committed", "uncommitted", "found_us")


def unknown(found: DataFrame, known: DataFrame, key: str) -> DataFrame:
    """Return the rows of `found` whose key is not in `known`."""
    # By sorting: Spark assumes that data from a few files is small, and would broadcast all of it.
    return found.join(known.select(key).hint("merge"), key, "left_anti")


def observed_objects(saved: DataFrame, listed: DataFrame, closed_before_us: int) -> DataFrame:
    """Return the objects judged by an optimized run: see `rules.observed_objects`."""
    closed = saved.where(f.col("made_us") < closed_before_us)
    return listed.unionByName(closed.select(*STORED.names))


def saved_commit_referenced(saved: DataFrame) -> DataFrame:
    """Return the paths referenced by known commits: see `rules.saved_commit_referenced`."""
    return saved.where(f.col("verdict").isin(_COMMIT_REFERENCED)).select("path")


def judge(
    observed: DataFrame,
    *,
    committed: DataFrame,
    uncommitted: DataFrame,
    saved: DataFrame,
    times: ObservationTimes,
) -> DataFrame:
    """Return objects with their verdicts, as `JUDGED`: see `rules.judge`.

    `observed` are objects as `STORED`, `saved` the objects in the state as `JUDGED`, the others
    `PATHS`.
    """
    found = saved.where(f.col("found_us") > 0)
    together = (
        _facts(observed, size=f.col("size"), born_us=f.col("born_us"), made_us=f.col("made_us"))
        .unionByName(_facts(committed, committed=f.lit(1)))
        .unionByName(_facts(uncommitted, uncommitted=f.lit(1)))
        .unionByName(_facts(found, found_us=f.col("found_us")))
    )
    grouped = together.groupBy("path").agg(*(f.max(name).alias(name) for name in _FACTS))
    is_seen = f.col("born_us").isNotNull()
    is_object = f.col("path").rlike(WHOLE_PATH_PATTERN)
    verdict = (
        f.when(~is_seen, Verdict.UNSEEN.value)
        .when(f.col("committed").isNotNull(), Verdict.COMMITTED.value)
        .when(f.col("uncommitted").isNotNull(), Verdict.HELD.value)
        .when(f.col("born_us") >= times.cutoff_us, Verdict.YOUNG.value)
        .otherwise(Verdict.CANDIDATE.value)
    )
    found_us = f.when(
        f.col("verdict") == Verdict.CANDIDATE.value,
        f.least(f.col("found_us"), f.lit(times.ended_us)),
    ).otherwise(0)
    return (
        grouped.where(is_seen | (f.col("committed").isNotNull() & is_object))
        .withColumn("verdict", verdict)
        .withColumn("found_us", found_us)
        .withColumn("made_us", f.coalesce(f.col("made_us"), _made_us()))
        .fillna(0, ["size", "born_us"])
        .select(*JUDGED.names)
    )


def _made_us() -> Column:
    """Return the creation time of an object's partition; see `lakebed.formats.object_paths`."""
    digits = 13  # the three digits before are constant, and would overflow
    counted_down = f.conv(f.substring("path", MADE_FROM + 3, digits), 16, 10).cast(LongType())
    return f.lit((1 << 4 * digits) - 1) - counted_down


def _facts(frame: DataFrame, **facts: Column) -> DataFrame:
    columns = [facts.get(name, f.lit(None)).cast(LongType()).alias(name) for name in _FACTS]
    return frame.select("path", *columns)


def is_due(times: ObservationTimes) -> Column:
    """Return whether this run deletes an object of `JUDGED`: see `rules.due`."""
    return (f.col("found_us") > 0) & (f.col("found_us") <= times.began_us - times.gap_us)


def with_freed(judged: DataFrame, old: DataFrame | None) -> DataFrame:
    """Add whether each object is garbage referenced by old commits: see `rules.freed`."""
    if old is None:
        return judged.withColumn("is_freed", f.lit(False))
    named = old.distinct().withColumn("named", f.lit(1)).hint("merge")
    is_freed = (f.col("verdict") == Verdict.CANDIDATE.value) & f.col("named").isNotNull()
    return judged.join(named, "path", "left").withColumn("is_freed", is_freed).drop("named")


def is_remembered(closed_before_us: int) -> Column:
    """Return whether the next run must know an object: see `rules.remembered`."""
    is_closed = f.col("made_us") < closed_before_us
    is_committed = f.col("verdict").isin(_COMMIT_REFERENCED)
    return (f.col("verdict") == Verdict.CANDIDATE.value) | (is_closed != is_committed)
