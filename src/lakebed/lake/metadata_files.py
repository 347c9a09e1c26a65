"""Files of committed metadata (ranges, metaranges), for programs that read them directly."""

from dataclasses import dataclass
from enum import StrEnum

from lakebed.base.tracing import traced
from lakebed.block import Address, BlockStore, ByteStream, ObjectNotFound
from lakebed.engine.engine import Engine
from lakebed.engine.errors import InvalidName
from lakebed.engine.model import RepositoryID
from lakebed.formats import MetaRangeID, RangeID, metarange_path, range_path


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
