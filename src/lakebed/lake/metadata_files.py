"""Files for programs that read the storage directly: ranges, metaranges, lists of addresses."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lakebed.base.tracing import traced
from lakebed.block import Address, BlockStore, ByteStream, Namespace, ObjectNotFound
from lakebed.engine.committed import EntryQuery
from lakebed.engine.engine import Engine
from lakebed.engine.errors import InvalidName
from lakebed.engine.model import BranchID, Repository, RepositoryID
from lakebed.formats import Entry, MetaRangeID, RangeID, metarange_path, range_path
from lakebed.formats.layout import symlinks_folder
from lakebed.lake.model import stats_of


class FileKind(StrEnum):
    """The kind of a committed metadata file."""

    RANGE = "range"
    METARANGE = "metarange"


@dataclass(frozen=True, slots=True)
class MetadataFile:
    """An existing file."""

    address: Address
    size: int
    """In bytes."""


class MetadataFiles:
    """Finds and reads the committed metadata files of all repositories.

    Methods raise `BlockError` if the storage refuses or fails.
    """

    def __init__(self, engine: Engine, block: BlockStore) -> None:
        self._engine = engine
        self._block = block

    @traced("catalog.find_metadata_file")
    def find(
        self, repository_id: RepositoryID, kind: FileKind, file_id: str
    ) -> MetadataFile | None:
        """Return a file, or None if it does not exist.

        Raises `RepositoryNotFound` for a missing repository, `InvalidName` for a malformed id.
        """
        namespace = self._engine.repositories.get(repository_id).namespace
        if not (file_id.isascii() and file_id.isalnum()):
            raise InvalidName(f"'{file_id}' is not a valid {kind} id: use letters and digits")
        if kind is FileKind.RANGE:
            address = namespace.address(range_path(RangeID(file_id)))
        else:
            address = namespace.address(metarange_path(MetaRangeID(file_id)))
        try:
            return MetadataFile(address, self._block.head(address).size)
        except ObjectNotFound:
            return None

    @traced("catalog.read_metadata_file")
    def read(self, file: MetadataFile) -> ByteStream:
        return self._block.get(file.address)


_FILE: Final = "symlink.txt"
_PAGE: Final = 1000


class Symlinks:
    """Writes symlink files, for Hive's SymlinkTextInputFormat.

    Each ``symlink.txt`` has the addresses of one partition of a table. The files are written below
    ``_lakebed/symlinks/<branch>/`` in the namespace, and replaced by the next request.
    """

    def __init__(self, engine: Engine, block: BlockStore) -> None:
        self._engine = engine
        self._block = block

    @traced("catalog.write_symlinks")
    def write(self, repository_id: RepositoryID, branch: BranchID, prefix: bytes) -> Namespace:
        """Write the files of all folders below a prefix; return their root folder.

        Raises:
            RepositoryNotFound, BranchNotFound: The branch does not exist.
            UnreadableAddress: The address of an entry is invalid.
            BlockError: The storage refused or failed; some files may have been written.
        """
        repository = self._engine.repositories.get(repository_id)
        self._engine.branches.get(repository, branch)
        target = repository.namespace.folder(symlinks_folder(branch))
        open_folders: dict[str, list[str]] = {}
        for entry in self._entries(repository, branch, prefix):
            path = entry.key.decode(errors="replace")
            # Keys are sorted: a folder that is no prefix of this key is complete.
            for folder in [each for each in open_folders if not path.startswith(each)]:
                self._save(target, folder, open_folders.pop(folder))
            folder = path[: path.rfind("/") + 1]
            address = stats_of(repository.namespace, entry).address
            open_folders.setdefault(folder, []).append(str(address))
        for folder, addresses in open_folders.items():
            self._save(target, folder, addresses)
        return target

    def _entries(self, repository: Repository, branch: BranchID, prefix: bytes) -> Iterator[Entry]:
        after, has_more = b"", True
        while has_more:
            query = EntryQuery(prefix=prefix, after=after, amount=_PAGE)
            _, page = self._engine.reader.list_entries(repository.id, branch, query)
            for item in page.items:
                assert isinstance(item, Entry), "without a delimiter nothing is folded"
                yield item
                after = item.key
            has_more = page.has_more

    def _save(self, target: Namespace, folder: str, addresses: list[str]) -> None:
        address: Address = target.address(folder + _FILE)
        self._block.put(address, ["\n".join([*addresses, ""]).encode()])
