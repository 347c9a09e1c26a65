"""Lakebed: Git-like version control for data lakes.

`lakebed.open` opens a lake in a folder, `lakebed.connect` a lake on a server; see
`lakebed.clients.library`. Modules are loaded on first use to keep `import lakebed` cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from lakebed.base.errors import LakebedError

if TYPE_CHECKING:
    from lakebed.clients.library.errors import (
        Conflict,
        Forbidden,
        Invalid,
        LakeError,
        MergeConflict,
        NotFound,
        ObjectExists,
        PreconditionFailed,
        Unavailable,
    )
    from lakebed.clients.library.lake import Lake, connect
    from lakebed.clients.library.lake import open_lake as open  # noqa: A004 - called as lakebed.open
    from lakebed.clients.library.objects import StoredObject, WriteableObject
    from lakebed.clients.library.refs import Branch, Reference, Repository, Tag
    from lakebed.clients.library.values import (
        Change,
        Commit,
        CommonPrefix,
        ObjectInfo,
        RepositoryInfo,
    )

__version__ = "0.2.0"
"""Same as in pyproject.toml: reading the installed metadata takes as long as a small command."""

__all__ = [
    "Branch",
    "Change",
    "Commit",
    "CommonPrefix",
    "Conflict",
    "Forbidden",
    "Invalid",
    "Lake",
    "LakeError",
    "LakebedError",
    "MergeConflict",
    "NotFound",
    "ObjectExists",
    "ObjectInfo",
    "PreconditionFailed",
    "Reference",
    "Repository",
    "RepositoryInfo",
    "StoredObject",
    "Tag",
    "Unavailable",
    "WriteableObject",
    "__version__",
    "connect",
    "open",
]

_WHERE: Final = {
    "errors": "Conflict Forbidden Invalid LakeError MergeConflict NotFound ObjectExists"
    " PreconditionFailed Unavailable",
    "lake": "Lake connect open",
    "objects": "StoredObject WriteableObject",
    "refs": "Branch Reference Repository Tag",
    "values": "Change Commit CommonPrefix ObjectInfo RepositoryInfo",
}
_MODULES: Final = {name: module for module, names in _WHERE.items() for name in names.split()}
_OTHER_NAMES: Final = {"open": "open_lake"}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'lakebed' has no attribute {name!r}")
    module = import_module(f"lakebed.clients.library.{_MODULES[name]}")
    found = globals()[name] = getattr(module, _OTHER_NAMES.get(name, name))
    return found
