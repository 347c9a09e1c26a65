"""Other programs read the files as they lie."""

from pathlib import Path

import duckdb

from lakebed import formats
from lakebed.block import LocalSettings, open_block
from lakebed.engine.committed import Committed
from tests.engine.committed.kit import LOCAL_HOME, RUNTIME, SMALL, change_rows, entry, rows


def documented_query() -> str:
    """Return the query in the documentation of formats."""
    assert formats.__doc__ is not None
    return "SELECT" + formats.__doc__.partition("SELECT")[2].partition("\n\n")[0]


def test_duckdb_answers_the_documented_query(tmp_path: Path) -> None:
    model = {b"dir/%02d" % n: entry(b"dir/%02d" % n, n % 4) for n in range(50)}
    store = Committed(open_block(LocalSettings(tmp_path)), LOCAL_HOME, RUNTIME, breaks=SMALL)
    base = store.write([rows(model)])
    # Another commit, whose ranges lie in the same folder.
    result = store.apply(base, [change_rows({b"dir/03": None, b"dir/49": None})]).metarange_id

    query = documented_query().replace("<id>", result)
    query = query.replace("'_lakebed", f"'{tmp_path}/lake/repo/_lakebed")
    found = duckdb.execute(query).fetchall()
    wanted = {key.decode(): each for key, each in model.items()}
    del wanted["dir/03"], wanted["dir/49"]
    assert {path: (size, metadata) for path, size, metadata in found} == {
        path: (each.size, each.metadata) for path, each in wanted.items()
    }
    sizes = [size for _, size, _ in found]
    assert sizes == sorted(sizes, reverse=True)


def test_duckdb_knows_the_types(tmp_path: Path) -> None:
    one = entry(b"\xff", 5)
    file = tmp_path / "range.parquet"
    file.write_bytes(formats.encode_range(rows({one.key: one})))
    (row,) = duckdb.execute(f"SELECT * REPLACE (epoch_us(mtime) AS mtime) FROM '{file}'").fetchall()
    instant = round(one.mtime.timestamp() * 1e6)
    assert row[:2] == (one.key, one.identity)
    assert row[2:6] == (one.address, one.address_type, one.size, one.checksum)
    assert row[6:] == (instant, one.content_type, one.metadata)
