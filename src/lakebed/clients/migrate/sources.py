"""Where a repository of lakeFS is read from: what any such place can tell."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from lakebed.block import BlockStore, Namespace
from lakebed.clients.migrate.addresses import AddressTranslator
from lakebed.formats import Entry

_FOLDER: Final = "_lakefs"
"""Below the namespace."""


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
    """The first parent is the head that the commit replaced."""
    swapped: bool = False
    """Whether lakeFS has the parents in the other order, as its first versions did."""


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
    """None: it was removed."""


class LakeFSRefs(Protocol):
    """The commits, branches and tags of a repository of lakeFS, as they are at one moment."""

    @property
    def namespace(self) -> str:
        """What relative addresses are relative to."""

    def commits(self) -> Iterator[SourceCommit]:
        """Iterate over all commits, in any order."""

    def branches(self) -> Iterator[SourceBranch]:
        """Iterate over all branches."""

    def tags(self) -> Iterator[SourceTag]:
        """Iterate over all tags."""

    def changes(self, branch: SourceBranch) -> Iterator[SourceChange]:
        """Iterate over what is uncommitted on a branch."""


class LakeFSFiles(Protocol):
    """The metaranges and ranges of a repository of lakeFS."""

    def metarange(self, metarange_id: str) -> bytes:
        """Return the file of a metarange."""

    def range(self, range_id: str) -> bytes:
        """Return the file of a range."""


@dataclass(frozen=True, slots=True)
class LakeFSSource:
    """A repository of lakeFS: its refs may come from another place than its files."""

    refs: LakeFSRefs
    files: LakeFSFiles
    addresses: AddressTranslator


class StorageFiles:
    """The files where lakeFS keeps them in the storage."""

    def __init__(self, block: BlockStore, namespace: Namespace) -> None:
        self._block = block
        self._namespace = namespace

    def metarange(self, metarange_id: str) -> bytes:
        """Return the file of a metarange."""
        return self._read(metarange_id)

    def range(self, range_id: str) -> bytes:
        """Return the file of a range."""
        return self._read(range_id)

    def _read(self, name: str) -> bytes:
        return self._block.read(self._namespace.address(f"{_FOLDER}/{name}"))
