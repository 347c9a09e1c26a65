"""Small JSON files that say what they are and carry a digest of themselves."""

import hashlib
import json
from typing import Any

from lakebed.formats.errors import DamagedFile, ForeignFile
from lakebed.formats.parquet import FORMAT_VERSION, refuse_newer


def encode_document(type_name: str, content: dict[str, Any]) -> bytes:
    """Return the file of a document."""
    content = {"type": type_name, "format": FORMAT_VERSION, **content}
    return json.dumps(content | {"digest": _digest(content)}, indent=1).encode()


def decode_document(data: bytes, type_name: str, *, file: str) -> dict[str, Any]:
    """Return the content of a document, proven to be as it was written.

    Raises:
        DamagedFile: The file does not hold a whole document.
        ForeignFile: It is not a document of this type, or (`FormatTooNew`) is one of a newer
            Lakebed.
    """
    try:
        content: Any = json.loads(data)
    except ValueError as error:
        raise DamagedFile(file, error) from error
    if not isinstance(content, dict) or content.get("type") != type_name:
        raise ForeignFile(file, f"is not a {type_name}")
    version = content.get("format")
    if isinstance(version, int):
        refuse_newer(version, file)
    digest = content.pop("digest", None)
    if digest != _digest(content):
        raise DamagedFile(file, "its content has another digest than it says")
    return {name: content[name] for name in content if name not in {"type", "format"}}


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
