"""Content types by file name: for uploads by command, library and browser, and for imports."""

import mimetypes
from pathlib import PurePosixPath
from typing import Final

DEFAULT_CONTENT_TYPE: Final = "application/octet-stream"

_TYPES: Final = mimetypes.MimeTypes()
"""Python's built-in table, without the files of a machine."""
_ARROW: Final = "application/vnd.apache.arrow.file"
_JSON_LINES: Final = "application/jsonl"
_PARQUET: Final = "application/vnd.apache.parquet"
_YAML: Final = "application/yaml"
_MORE_TYPES: Final = {
    ".arrow": _ARROW,
    ".avro": "application/vnd.apache.avro",
    ".feather": _ARROW,
    ".geojson": "application/geo+json",
    ".ipynb": "application/x-ipynb+json",
    ".jsonl": _JSON_LINES,
    ".log": "text/plain",
    ".md": "text/markdown",
    ".ndjson": _JSON_LINES,
    ".parq": _PARQUET,
    ".parquet": _PARQUET,
    ".toml": "application/toml",
    ".yaml": _YAML,
    ".yml": _YAML,
    ".zst": "application/zstd",
}
"""Types missing in Python's table, or only in that of later versions."""
_COMPRESSED: Final = {
    "bzip2": "application/x-bzip2",
    "gzip": "application/gzip",
    "xz": "application/x-xz",
}


def content_type_of(name: str) -> str:
    """Return the content type that a file name or a path suggests."""
    suffix = PurePosixPath(name).suffix.lower()
    if suffix in _MORE_TYPES:
        return _MORE_TYPES[suffix]
    kind, encoding = _TYPES.guess_type(f"file{suffix}", strict=False)
    if encoding is not None:  # the type of the archive, not of its content
        return _COMPRESSED.get(encoding, DEFAULT_CONTENT_TYPE)
    return kind or DEFAULT_CONTENT_TYPE
