"""Entry point: chooses the way to show an object."""

from collections.abc import Sequence
from typing import Final

from lakebed.base.runtime import Runtime
from lakebed.base.tracing import traced
from lakebed.engine.model import RepositoryID
from lakebed.lake.errors import NotComparable, PreviewTooLarge, UnreadableTable
from lakebed.lake.model import ObjectStats
from lakebed.lake.objects import Objects
from lakebed.lake.preview import texts
from lakebed.lake.preview.decoders import Decoders
from lakebed.lake.preview.decoding import Decode, Preview, Task
from lakebed.lake.preview.row_diff import RowDiff
from lakebed.lake.preview.tables import BoundedFile

ROWS_MAX: Final = 200
"""Maximum number of rows per page."""
_BYTES_MAX: Final = 64 << 20
_SECONDS_MAX: Final = 15.0
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
_BINARY: Final = frozenset({"parquet", "arrow"})
_MAGICS: Final = {b"PAR1": "parquet", b"ARROW1": "arrow"}


class Previews:
    """Creates previews of objects, with limits on bytes, rows, columns and time."""

    def __init__(self, objects: Objects, runtime: Runtime, decode: Decode | None = None) -> None:
        """`decode` decodes tables; defaults to child processes."""
        self._objects = objects
        self._runtime = runtime
        self._decode = decode or Decoders(runtime, seconds_max=_SECONDS_MAX).decode

    @traced("catalog.preview")
    def show(
        self, repository_id: RepositoryID, ref: str, path: bytes, *, offset: int, limit: int
    ) -> Preview:
        """Return a preview of an object, beginning with the row at an offset.

        Raises `EntryNotFound` if the object does not exist, and `MissingBytes`, `ChangedBytes` or
        `BlockError` if it cannot be read.
        """
        stats = self._objects.stat(repository_id, ref, path)
        file = self._open(stats)
        try:
            kind = self._format(stats, file)
            if kind is not None:
                return self._table(kind, file, offset, min(limit, ROWS_MAX))
            return self._other(stats, file)
        except PreviewTooLarge as error:
            return Preview(kind="none", reason=_sentence(error))

    @traced("catalog.preview_diff")
    def diff(
        self, repository_id: RepositoryID, left: str, right: str, path: bytes, keys: Sequence[str]
    ) -> RowDiff:
        """Return the rows of a table that differ between two refs.

        Raises `EntryNotFound` if a ref lacks the object, and `NotComparable`, `PreviewTooLarge` or
        `UnreadableTable` if the rows cannot be compared.
        """
        files, formats = [], []
        for ref in (left, right):
            stats = self._objects.stat(repository_id, ref, path)
            file = self._open(stats)
            kind = self._format(stats, file)
            if kind is None:
                raise NotComparable(
                    "only rows of Parquet, Arrow, CSV and JSON lines can be compared"
                )
            files.append(file)
            formats.append(kind)
        found = self._decode(Task(formats=formats, compare=True, keys=list(keys)), files)
        assert isinstance(found, RowDiff)
        return found

    def _open(self, stats: ObjectStats) -> BoundedFile:
        ends = self._runtime.monotonic() + _SECONDS_MAX

        def check_time() -> None:
            if self._runtime.monotonic() > ends:
                raise PreviewTooLarge(
                    f"showing this object takes more than {_SECONDS_MAX:.0f} seconds: download it"
                )

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
            found = self._decode(Task(formats=[kind], offset=offset, limit=limit), [file])
        except UnreadableTable as error:
            file.seek(0)
            text = None if kind in _BINARY else texts.decode(file.read(_TEXT_BYTES))
            if text is not None:
                return Preview(kind="text", text=text, truncated=file.size > _TEXT_BYTES)
            return Preview(kind="none", reason=_sentence(error))
        assert isinstance(found, Preview)
        return found

    def _other(self, stats: ObjectStats, file: BoundedFile) -> Preview:
        extension = _extension(stats)
        if extension in _IMAGES or stats.content_type.lower() in _IMAGE_TYPES:
            return Preview(kind="image")
        is_notebook = extension == "ipynb"
        most = _NOTEBOOK_BYTES if is_notebook else _TEXT_BYTES
        text = texts.decode(file.read(most))
        if text is None:
            return Preview(kind="none", reason="The object is neither text, a table nor an image.")
        truncated = stats.size > most
        if extension in {"md", "markdown"} and len(text) <= texts.MARKDOWN_LENGTH_MAX:
            return Preview(kind="markdown", tree=texts.markdown_tree(text))
        if is_notebook and not truncated:
            try:
                return Preview(kind="notebook", cells=texts.notebook_cells(text))
            except (ValueError, RecursionError):
                pass  # show an invalid notebook as text
        return Preview(kind="text", text=text[:_TEXT_BYTES], truncated=truncated)


def _extension(stats: ObjectStats) -> str:
    name = stats.path.decode(errors="replace").rpartition("/")[2]
    return name.rpartition(".")[2].lower() if "." in name else ""


def _sentence(error: PreviewTooLarge | UnreadableTable) -> str:
    """Return the message of an error as a sentence for people."""
    text = str(error).rstrip(".")
    return f"{text[0].upper()}{text[1:]}."
