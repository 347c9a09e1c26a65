"""What garbage is, on Arrow: functions from tables to tables, column by column.

They mean the same as the functions of `rules`, as `frames` does on Spark.
Tables hold all that is known of some paths, and nothing is known of these paths elsewhere.
"""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.gc_state import GC_RESULT_SCHEMAS, GCResultKind
from lakebed.formats.object_paths import WHOLE_PATH_PATTERN
from lakebed.reclaim.collector.executors.list import STORED_SCHEMA, made_us_of
from lakebed.reclaim.collector.rules import COMMIT_NAMED, Look, Verdict

JUDGED_SCHEMA: Final = GC_RESULT_SCHEMAS[GCResultKind.OBJECTS]
"""Objects and what a look found them to be: `rules.Judged`, with 0 for no time."""

PATHS_SCHEMA: Final = pa.schema([pa.field("path", pa.string())])
"""Paths of objects that something names; a path may come more than once."""

FOUND_SCHEMA: Final = pa.schema([pa.field("path", pa.string()), pa.field("found_us", pa.int64())])
"""Candidates of earlier looks, and when they were found."""

_COMMIT_NAMED: Final = pa.array([verdict.value for verdict in COMMIT_NAMED])


def saved_closed(saved: pa.Table, closed_before_us: int) -> pa.Table:
    """Return what the state remembers of closed partitions: see `rules.looked_at`."""
    return saved.filter(_is_closed(saved, closed_before_us)).select(STORED_SCHEMA.names)


def saved_commit_named(saved: pa.Table) -> pa.Table:
    """Return the paths that known commits name: see `rules.saved_commit_named`."""
    return saved.filter(_is_commit_named(saved)).select(PATHS_SCHEMA.names)


def saved_found(saved: pa.Table) -> pa.Table:
    """Return the candidates of the state."""
    return saved.filter(pc.greater(saved.column("found_us"), 0)).select(FOUND_SCHEMA.names)


def judge(
    looked: pa.Table, *, committed: pa.Table, held: pa.Table, found: pa.Table, look: Look
) -> pa.Table:
    """Return objects with what they are found to be: see `rules.judge`.

    Args:
        looked: The objects, with the columns of `STORED_SCHEMA`; each once.
        committed: What commit records name.
        held: What staging, links and open uploads name.
        found: The candidates of the state.
        look: The times of this look.
    """
    paths = looked.column("path")
    conditions = {
        Verdict.COMMITTED: pc.is_in(paths, value_set=committed.column("path")),
        Verdict.HELD: pc.is_in(paths, value_set=held.column("path")),
        Verdict.YOUNG: pc.greater_equal(looked.column("born_us"), look.cutoff_us),
    }
    verdict = pa.repeat(Verdict.CANDIDATE.value, looked.num_rows)
    for name, condition in reversed(conditions.items()):  # the first that holds is the last to win
        verdict = pc.if_else(condition, name.value, verdict)
    place = pc.index_in(paths, value_set=found.column("path"))
    found_us = pc.min_element_wise(found.column("found_us").take(place), look.ended_us)
    found_us = pc.if_else(pc.equal(verdict, Verdict.CANDIDATE.value), found_us, 0)
    seen = pa.table(
        [*(looked.column(name) for name in STORED_SCHEMA.names), verdict, found_us],
        schema=JUDGED_SCHEMA,
    )
    return pa.concat_tables([seen, _unseen(committed.column("path"), paths)])


def _unseen(committed: pa.ChunkedArray, looked: pa.ChunkedArray) -> pa.Table:
    """Return the objects that commits name and that nobody has seen."""
    others = pc.unique(committed.filter(pc.invert(pc.is_in(committed, value_set=looked))))
    others = others.filter(pc.match_substring_regex(others, WHOLE_PATH_PATTERN))
    zeros = pa.repeat(pa.scalar(0, pa.int64()), len(others))
    verdicts = pa.repeat(Verdict.UNSEEN.value, len(others))
    columns = [others, zeros, zeros, pa.array(made_us_of(others)), verdicts, zeros]
    return pa.table(columns, schema=JUDGED_SCHEMA)


def is_due(judged: pa.Table, look: Look) -> pa.ChunkedArray:
    """Whether this run deletes each object: see `rules.due`."""
    found_us = judged.column("found_us")
    is_old = pc.less_equal(found_us, look.began_us - look.gap_us)
    return pc.and_(pc.greater(found_us, 0), is_old)


def is_candidate(judged: pa.Table) -> pa.ChunkedArray:
    """Whether each object is garbage, as far as this look can tell."""
    return pc.equal(judged.column("verdict"), Verdict.CANDIDATE.value)


def is_freed(judged: pa.Table, old: pa.Table) -> pa.ChunkedArray:
    """Whether each object is garbage that old commits name: see `rules.freed`."""
    named = pc.is_in(judged.column("path"), value_set=old.column("path"))
    return pc.and_(is_candidate(judged), named)


def is_remembered(judged: pa.Table, closed_before_us: int) -> pa.ChunkedArray:
    """Whether the next run must know of each object: see `rules.remembered`."""
    is_closed = _is_closed(judged, closed_before_us)
    return pc.or_(is_candidate(judged), pc.xor(is_closed, _is_commit_named(judged)))


def _is_closed(table: pa.Table, closed_before_us: int) -> pa.ChunkedArray:
    return pc.less(table.column("made_us"), closed_before_us)


def _is_commit_named(table: pa.Table) -> pa.ChunkedArray:
    return pc.is_in(table.column("verdict"), value_set=_COMMIT_NAMED)
