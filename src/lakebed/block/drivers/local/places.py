"""From addresses to files, one to one.

``local://name/a/b`` is the file ``name/a/b`` below the root. Addresses that a disk cannot spell are
refused, never changed: an empty, ``.`` or ``..`` component (so no ``//`` and no slash at the end),
a component or a whole path longer than the system takes. Names of stores begin with a letter or a
digit, so the reserved folder at the root has no address, and no listing shows it.

Names are bytes here, UTF-8 whatever the locale says.
"""

from dataclasses import dataclass
from typing import Final

from lakebed.block.address import Address, Namespace, split_store
from lakebed.block.errors import InvalidAddress

SCHEME: Final = "local"
RESERVED_FOLDER: Final = ".lakebed"

_NAME_BYTES_MAX: Final = 255
_PATH_BYTES_MAX: Final = 4095  # what Linux takes in one call, less the NUL at the end

Names = tuple[bytes, ...]
"""Names of folders, from the root down."""


@dataclass(frozen=True, slots=True)
class FilePlace:
    """Where the file of an address is: in which folder, and under which name."""

    address: Address
    folder: Names
    name: bytes


def place_of(root: bytes, address: Address) -> FilePlace:
    """Return where the file of an address is.

    Raises:
        InvalidAddress: The address is of another scheme, or no file can have this name.
    """
    *folder, name = _names(root, address, address.path)
    return FilePlace(address, tuple(folder), name)


def folder_of(root: bytes, namespace: Namespace) -> Names:
    """Return where the folder of a namespace is.

    Raises:
        InvalidAddress: The namespace is of another scheme, or no folder can have this name.
    """
    if not namespace.prefix:
        return _names(root, namespace, "x")[:1]
    return _names(root, namespace, namespace.prefix.removesuffix("/"))


def _names(root: bytes, place: Address | Namespace, path: str) -> Names:
    store = split_store(place.store)
    if store.scheme != SCHEME:
        raise InvalidAddress(f"{place} is not an address of local storage")
    names = (store.bucket.encode(), *path.encode().split(b"/"))
    for name in names:
        if name in {b"", b".", b".."}:
            raise InvalidAddress(
                f"local storage cannot spell {place}:"
                " no component of its path may be empty, '.' or '..'"
            )
        if len(name) > _NAME_BYTES_MAX:
            raise InvalidAddress(
                f"local storage cannot spell {place}: a component of its path has {len(name)}"
                f" bytes, and a file's name has at most {_NAME_BYTES_MAX}"
            )
    if len(root) + sum(map(len, names)) + len(names) > _PATH_BYTES_MAX:
        raise InvalidAddress(
            f"local storage cannot spell {place}: below the root its path is longer than the"
            f" {_PATH_BYTES_MAX} bytes that a path may have"
        )
    return names
