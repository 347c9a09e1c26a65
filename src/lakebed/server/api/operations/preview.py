"""What is in objects, for people: Lakebed's own operations, which the web UI uses."""

from typing import Annotated, Final

from msgspec import Meta, field

from lakebed.catalog.nouns import RepositoryID
from lakebed.catalog.preview.decoding import Preview
from lakebed.catalog.preview.previews import ROWS_MAX
from lakebed.catalog.preview.row_diff import RowDiff
from lakebed.server.api.models import Wire
from lakebed.server.api.request import ApiRequest, as_key
from lakebed.server.api.routes import Routes, fs

routes = Routes("preview")

_AT_REF: Final = "/repositories/{repository}/refs/{ref}/objects/preview"
_READ: Final = fs("ReadObject", "repository/{repository}/object/{query.path}")
_OFFSET_MAX: Final = (1 << 53) - 1


class PreviewQuery(Wire):
    path: str
    offset: Annotated[int, Meta(ge=0, le=_OFFSET_MAX, description="of the first row")] = 0
    limit: Annotated[int, Meta(ge=1, le=ROWS_MAX, description="how many rows")] = 50


class RowDiffQuery(Wire):
    path: str
    right_ref: str
    keys: list[str] = field(default_factory=list)


@routes.add("previewObject", "GET", _AT_REF, _READ, transfer=True)
def preview_object(
    request: ApiRequest, repository: RepositoryID, ref: str, query: PreviewQuery
) -> Preview:
    """Show what is in an object: rows of a table, text, or why there is no preview."""
    return request.catalog.previews.show(
        repository, ref, as_key(query.path), offset=query.offset, limit=query.limit
    )


@routes.add("diffObjectRows", "GET", f"{_AT_REF}/diff", _READ, transfer=True)
def diff_object_rows(
    request: ApiRequest, repository: RepositoryID, ref: str, query: RowDiffQuery
) -> RowDiff:
    """Show which rows of a table differ between two refs."""
    return request.catalog.previews.diff(
        repository, ref, query.right_ref, as_key(query.path), query.keys
    )
