"""The file that says whose a storage namespace is: which installation's, which repository's.

Whoever is about to write to a namespace, or to delete from it, compares the file with what it
believes itself to be: a repository that was deleted and made again is another one.
"""

import json
from dataclasses import asdict, dataclass
from typing import Final

from lakebed.formats.documents import load_json, read_record
from lakebed.formats.errors import ForeignFile, FormatTooNew

_TYPE: Final = "lakebed owner"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a namespace is."""

    installation_id: str
    """Which Lakebed: all servers over one key-value store are one installation."""

    repository: str
    unique_id: str
    """Which creation of the repository."""


def encode_owner(owner: Owner) -> bytes:
    """Return the bytes of the file; people may read them."""
    return json.dumps({"type": _TYPE, "version": _VERSION, **asdict(owner)}, indent=2).encode()


def decode_owner(data: bytes, *, file: str) -> Owner:
    """Return what the file says.

    Raises:
        DamagedFile: It is cut off, or lacks something.
        ForeignFile: It is not such a file, or (`FormatTooNew`) is one of a newer Lakebed.
    """
    content = load_json(data, file=file)
    if not isinstance(content, dict) or content.get("type") != _TYPE:
        raise ForeignFile(file, f"does not say that it is a {_TYPE}")
    if content.get("version") != _VERSION:
        raise FormatTooNew(
            file, f"has version {content.get('version')}; this Lakebed knows {_VERSION}"
        )
    return read_record(Owner, content, file=file)
