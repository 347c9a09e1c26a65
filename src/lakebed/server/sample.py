"""Sample data: a table of lakes, some commits, a branch, a tag."""

import csv
import io
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.model import BranchID, Repository
from lakebed.lake.catalog import Catalog

BRANCH: Final = "add-depths"
TAG: Final = "v1"

_LAKES: Final[dict[str, list[str] | list[int]]] = {
    "name": ["Baikal", "Inari", "Ladoga", "Ohrid", "Tanganyika", "Titicaca", "Vänern"],
    "continent": ["Asia", "Europe", "Europe", "Europe", "Africa", "South America", "Europe"],
    "area_km2": [31_722, 1_040, 17_700, 358, 32_900, 8_372, 5_519],
}
_DEPTHS_M: Final = [1_642, 92, 230, 288, 1_470, 281, 106]
_README: Final = """# A sample repository

`lakes.parquet` is a table of lakes; `by-continent/` has the same rows, one CSV file per continent.
The branch `add-depths` has one more column. Show its changes, then merge it:

    lakebed diff lakefs://{repository}/{main} lakefs://{repository}/add-depths
    lakebed merge lakefs://{repository}/add-depths lakefs://{repository}/{main}
"""


def add_sample(catalog: Catalog, repository: Repository, *, committer: str) -> None:
    """Fill a new repository."""
    main = repository.default_branch
    table = pa.table(_LAKES)

    def put(branch: BranchID, path: str, data: bytes, content_type: str) -> None:
        catalog.uploads.upload(
            repository.id, branch, path.encode(), [data], content_type=content_type
        )

    def commit(branch: BranchID, message: str, **metadata: str) -> None:
        request = CommitRequest(committer=committer, message=message, metadata=metadata)
        catalog.commits.commit(repository.id, branch, request)

    readme = _README.format(repository=repository.id, main=main)
    put(main, "README.md", readme.encode(), "text/markdown")
    commit(main, "Add a README")
    put(main, "lakes.parquet", _parquet(table), "application/vnd.apache.parquet")
    commit(main, "Add seven lakes", source="general knowledge")
    for continent in sorted(set(map(str, _LAKES["continent"]))):
        rows = table.filter(pa.compute.equal(table["continent"], continent))
        name = continent.lower().replace(" ", "-")
        put(main, f"by-continent/{name}.csv", _csv(rows), "text/csv")
    commit(main, "Add files by continent")
    catalog.ref_changes.create_tag(repository.id, TAG, main)
    catalog.ref_changes.create_branch(repository.id, BRANCH, main)
    deeper = table.append_column("depth_m", pa.array(_DEPTHS_M))
    branch = BranchID(BRANCH)
    put(branch, "lakes.parquet", _parquet(deeper), "application/vnd.apache.parquet")
    commit(branch, "Add depths")


def _parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def _csv(table: pa.Table) -> bytes:
    sink = io.StringIO()
    writer = csv.DictWriter(sink, table.column_names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table.to_pylist())
    return sink.getvalue().encode()
