"""Interfaces to a lakeFS repository, independent of where it is read from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from lakebed.block import BlockStore, Namespace
from lakebed.clients.migrate.addresses import AddressTranslator
from lakebed.formats import Entry

_FOLDER: Final = "_lakefs"
"""Folder of metadata below the namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCommit:
    """A commit of lakeFS."""

    id: str
    committer: str
    message: str
    created_us: int
    metarange_id: str
    metadata: Mapping[str, str]
    parents: tuple[str, ...]
    """Parents; the first is the head that the commit replaced."""
    swapped: bool = False
    """Whether lakeFS stores the parents in reverse order, as its first versions did."""


@dataclass(frozen=True, slots=True)
class SourceBranch:
    """A branch of lakeFS."""

    name: str
    commit_id: str
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class SourceTag:
    """A tag of lakeFS."""

    name: str
    commit_id: str


@dataclass(frozen=True, slots=True)
class SourceChange:
    """An uncommitted change of a branch of lakeFS."""

    key: bytes
    entry: Entry | None
    """The new entry, or None if removed."""


class LakeFSRefs(Protocol):
    """The commits, branches and tags of a lakeFS repository, as a snapshot."""

    @property
    def namespace(self) -> str:
        """The base of relative addresses."""

    def commits(self) -> Iterator[SourceCommit]:
        """Iterate over all commits, in any order."""

    def branches(self) -> Iterator[SourceBranch]:
        """Iterate over all branches."""

    def tags(self) -> Iterator[SourceTag]:
        """Iterate over all tags."""

    def changes(self, branch: SourceBranch) -> Iterator[SourceChange]:
        """Iterate over the uncommitted changes of a branch."""


class LakeFSFiles(Protocol):
    """The metaranges and ranges of a lakeFS repository."""

    def metarange(self, metarange_id: str) -> bytes:
        """Return the file of a metarange."""

    def range(self, range_id: str) -> bytes:
        """Return the file of a range."""


@dataclass(frozen=True, slots=True)
class LakeFSSource:
    """A lakeFS repository. Refs and files may come from different sources."""

    refs: LakeFSRefs
    files: LakeFSFiles
    addresses: AddressTranslator


class StorageFiles:
    """The files in lakeFS's storage."""

    def __init__(self, block: BlockStore, namespace: Namespace) -> None:
        self._block = block
        self._namespace = namespace

    def metarange(self, metarange_id: str) -> bytes:
        return self._read(metarange_id)

    def range(self, range_id: str) -> bytes:
        return self._read(range_id)

    def _read(self, name: str) -> bytes:
        return self._block.read(self._namespace.address(f"{_FOLDER}/{name}"))
