"""Previews of objects for people: an extension of the lakeFS API, used by the web UI."""

from typing import Final

from lakebed.engine.model import RepositoryID
from lakebed.lake.preview.decoding import Preview
from lakebed.lake.preview.row_diff import RowDiff
from lakebed.server.api.request import ApiRequest, as_key
from lakebed.server.api.routes import Routes, fs
from lakebed.wire.objects import PreviewAPI, PreviewQuery, RowDiffQuery

routes = Routes()

_READ: Final = fs("ReadObject", "repository/{repository}/object/{query.path}")


@routes.add(PreviewAPI.show, _READ)
def preview_object(
    request: ApiRequest, repository: RepositoryID, ref: str, query: PreviewQuery
) -> Preview:
    """Preview an object: rows of a table, text, or the reason for no preview."""
    return request.services.catalog.previews.show(
        repository, ref, as_key(query.path), offset=query.offset, limit=query.limit
    )


@routes.add(PreviewAPI.diff_rows, _READ)
def diff_object_rows(
    request: ApiRequest, repository: RepositoryID, ref: str, query: RowDiffQuery
) -> RowDiff:
    """Return the rows of a table that differ between two refs."""
    return request.services.catalog.previews.diff(
        repository, ref, query.right_ref, as_key(query.path), query.keys
    )
