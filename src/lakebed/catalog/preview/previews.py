"""The entrance: looks at an object and chooses how to show it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from lakebed.catalog.errors import NotComparable, PreviewTooLarge
from lakebed.catalog.model import ObjectStats
from lakebed.catalog.objects import Objects
from lakebed.catalog.preview import tables, texts
from lakebed.catalog.preview.bounded import BoundedFile
from lakebed.catalog.preview.columns import Column, cells, describe
from lakebed.catalog.preview.row_diff import RowDiff, diff_rows
from lakebed.engine.model import RepositoryID
from lakebed.runtime import Runtime
from lakebed.tracing import traced

ROWS_MAX: Final = 200
"""How many rows a page has at most."""
COMPARED_ROWS_MAX: Final = 20_000
_BYTES_MAX: Final = 64 << 20
_SECONDS_MAX: Final = 10.0
_TEXT_BYTES: Final = 256 << 10
_NOTEBOOK_BYTES: Final = 4 << 20
_MAGIC_LENGTH: Final = 6

_IMAGES: Final = frozenset({"png", "jpg", "jpeg", "gif", "webp"})
_IMAGE_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_FORMATS: Final = {
    "parquet": "parquet",
    "parq": "parquet",
    "arrow": "arrow",
    "feather": "arrow",
    "ipc": "arrow",
    "arrows": "arrow",
    "csv": "csv",
    "tsv": "tsv",
    "tab": "tsv",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
}
_MAGICS: Final = {b"PAR1": "parquet", b"ARROW1": "arrow"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """An object as it is shown; which fields say something depends on the kind."""

    kind: str
    """``table``, ``text``, ``markdown``, ``notebook``, ``image`` or ``none``."""
    format: str = ""
    columns: list[Column] = field(default_factory=list)
    hidden_columns: int = 0
    rows: list[list[str | None]] = field(default_factory=list)
    offset: int = 0
    row_count: int | None = None
    has_more: bool = False
    layout: dict[str, str] = field(default_factory=dict)
    note: str = ""
    text: str = ""
    truncated: bool = False
    tree: list[Any] = field(default_factory=list)
    cells: list[dict[str, Any]] = field(default_factory=list)
    reason: str = ""
    """Why there is nothing to show."""


class Previews:
    """Shows what is in objects. Bytes, rows, columns and time are bounded."""

    def __init__(self, objects: Objects, runtime: Runtime) -> None:
        self._objects = objects
        self._runtime = runtime

    @traced("catalog.preview")
    def show(
        self, repository_id: RepositoryID, ref: str, path: bytes, *, offset: int, limit: int
    ) -> Preview:
        """Return what is in an object, beginning with the row at an offset.

        Raises:
            EntryNotFound: There is no such object.
            MissingBytes, ChangedBytes, BlockError: Its bytes cannot be read.
        """
        stats = self._objects.stat(repository_id, ref, path)
        file = self._open(stats)
        try:
            kind = self._format(stats, file)
            if kind is not None:
                return self._table(kind, file, offset, min(limit, ROWS_MAX))
            return self._other(stats, file)
        except PreviewTooLarge as error:
            return Preview(kind="none", reason=f"{error}.")

    @traced("catalog.preview_diff")
    def diff(
        self, repository_id: RepositoryID, left: str, right: str, path: bytes, keys: Sequence[str]
    ) -> RowDiff:
        """Return which rows of a table differ between two refs.

        Raises:
            EntryNotFound: One of them has no such object.
            NotComparable, PreviewTooLarge: Rows cannot be compared.
        """
        notes = []
        found = []
        for ref in (left, right):
            stats = self._objects.stat(repository_id, ref, path)
            file = self._open(stats)
            kind = self._format(stats, file)
            if kind is None:
                raise NotComparable("only rows of Parquet, Arrow, CSV and JSON lines are compared")
            try:
                rows = _READERS[kind](file, 0, COMPARED_ROWS_MAX, file.check_time)
            except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
                raise NotComparable(
                    f"the object at {ref} cannot be read: {_first_line(error)}"
                ) from error
            found.append(rows.table)
            if rows.has_more or rows.note:
                notes.append(f"Of {ref}, only the first {rows.table.num_rows} rows are compared.")
        result = diff_rows(found[0], found[1], keys)
        result.note = " ".join([*notes, result.note]).strip()
        return result

    def _open(self, stats: ObjectStats) -> BoundedFile:
        ends = self._runtime.monotonic() + _SECONDS_MAX

        def check_time() -> None:
            if self._runtime.monotonic() > ends:
                raise PreviewTooLarge(f"to show this takes more than {_SECONDS_MAX:.0f} seconds")

        return BoundedFile(
            lambda wanted: self._objects.read(stats, byte_range=wanted),
            stats.size,
            bytes_max=_BYTES_MAX,
            check_time=check_time,
        )

    def _format(self, stats: ObjectStats, file: BoundedFile) -> str | None:
        known = _FORMATS.get(_extension(stats))
        if known is None:
            head = file.read(_MAGIC_LENGTH)
            file.seek(0)
            known = next((kind for magic, kind in _MAGICS.items() if head.startswith(magic)), None)
        return known

    def _table(self, kind: str, file: BoundedFile, offset: int, limit: int) -> Preview:
        if file.size == 0:
            return Preview(kind="none", reason="The object is empty.")
        try:
            found = _READERS[kind](file, offset, limit, file.check_time)
            return Preview(
                kind="table",
                format=found.format,
                columns=describe(found.table, found.metadata),
                hidden_columns=found.hidden_columns,
                rows=cells(found.table),
                offset=offset,
                row_count=found.row_count,
                has_more=found.has_more,
                layout=found.layout,
                note=found.note,
            )
        except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
            file.seek(0)
            text = (
                texts.decode(file.read(_TEXT_BYTES)) if kind not in {"parquet", "arrow"} else None
            )
            if text is not None:
                return Preview(kind="text", text=text, truncated=file.size > _TEXT_BYTES)
            return Preview(
                kind="none", reason=f"It cannot be read as {kind}: {_first_line(error)}."
            )

    def _other(self, stats: ObjectStats, file: BoundedFile) -> Preview:
        extension = _extension(stats)
        if extension in _IMAGES or stats.content_type.lower() in _IMAGE_TYPES:
            return Preview(kind="image")
        is_notebook = extension == "ipynb"
        most = _NOTEBOOK_BYTES if is_notebook else _TEXT_BYTES
        text = texts.decode(file.read(most))
        if text is None:
            return Preview(kind="none", reason="It is neither text, a table nor a picture.")
        truncated = stats.size > most
        if extension in {"md", "markdown"} and not truncated:
            return Preview(kind="markdown", tree=texts.markdown_tree(text))
        if is_notebook and not truncated:
            try:
                return Preview(kind="notebook", cells=texts.notebook_cells(text))
            except (ValueError, RecursionError):
                pass  # it is shown as the text that it is
        return Preview(kind="text", text=text[:_TEXT_BYTES], truncated=truncated)


def _extension(stats: ObjectStats) -> str:
    name = stats.path.decode(errors="replace").rpartition("/")[2]
    return name.rpartition(".")[2].lower() if "." in name else ""


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200]


Reader = Callable[[BoundedFile, int, int, tables.CheckTime], tables.Rows]
_READERS: Final[dict[str, Reader]] = {
    "parquet": tables.read_parquet,
    "arrow": tables.read_arrow,
    "csv": lambda file, offset, limit, _: tables.read_csv(file, offset, limit, delimiter=","),
    "tsv": lambda file, offset, limit, _: tables.read_csv(file, offset, limit, delimiter="\t"),
    "jsonl": lambda file, offset, limit, _: tables.read_json_lines(file, offset, limit),
}
