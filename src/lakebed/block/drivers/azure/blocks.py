"""Block names: the only state that Azure stores for a multipart upload.

Azure has no uploads. A blob has one list of uncommitted blocks; a commit lists the blocks of the
new content and drops the others. Azure records neither the sender nor the time of a block, so the
name of a block encodes both. All block names of a blob have the same length, at most 64 bytes:

    upload (16 bytes) | kind (1) | number (2) | time in microseconds (8) | nonce (8)

An upload begins with a BEGUN block and is over when its blocks are deleted or an ABORTED block
exists. Blocks of long objects use the same format, because lengths must agree. The nonce is the
ETag of a part.

A part sent again is another block with the same number. Listings take the newest by the clocks of
the senders; completing an upload selects a part by its ETag.
"""

import struct
from base64 import b64encode
from binascii import Error as NotBase64Error
from binascii import a2b_base64
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Self

from lakebed.base.runtime import to_datetime
from lakebed.block.store import ETag, PartInfo, UploadId

_LAYOUT: Final = struct.Struct(">16sBHQ8s")


class BlockKind(IntEnum):
    """Purpose of a block."""

    BEGUN = 0
    PART = 1
    EMPTY_PART = 2
    """Azure refuses empty blocks, so an empty part is one byte that is not counted."""
    ABORTED = 3
    PUT = 4
    """Block of an object too long for one request; belongs to no upload."""


@dataclass(frozen=True, slots=True)
class AzureBlock:
    """A block, decoded from its name."""

    upload_id: UploadId
    kind: BlockKind
    number: int
    """Part number; 0 for other kinds."""
    time_us: int
    nonce: bytes

    @property
    def name(self) -> str:
        """Encoded name; inverse of `parse`."""
        upload = bytes.fromhex(self.upload_id)
        packed = _LAYOUT.pack(upload, self.kind, self.number, self.time_us, self.nonce)
        return b64encode(packed).decode()

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """Return the block with this name, or None if Lakebed did not create the name."""
        try:
            upload, kind, number, time_us, nonce = _LAYOUT.unpack(
                a2b_base64(name, strict_mode=True)
            )
            return cls(UploadId(upload.hex()), BlockKind(kind), number, time_us, nonce)
        except (NotBase64Error, struct.error, ValueError):
            return None

    @property
    def etag(self) -> ETag:
        return ETag(self.nonce.hex())


class BlobUploads:
    """Multipart uploads of a blob."""

    def __init__(self, names_and_sizes: Iterable[tuple[str, int]]) -> None:
        blocks = [(AzureBlock.parse(name), size) for name, size in names_and_sizes]
        self._blocks = [(block, size) for block, size in blocks if block is not None]
        aborted = {block.upload_id for block, _ in self._blocks if block.kind is BlockKind.ABORTED}
        self.begun = {
            block.upload_id: to_datetime(block.time_us)
            for block, _ in self._blocks
            if block.kind is BlockKind.BEGUN and block.upload_id not in aborted
        }
        """Start time of each active upload."""

    def parts(self, upload_id: UploadId) -> list[tuple[AzureBlock, PartInfo]]:
        """Return the parts of an upload by ascending number; repeated parts from old to new."""
        parts = [
            (block, 0 if block.kind is BlockKind.EMPTY_PART else size)
            for block, size in self._blocks
            if block.upload_id == upload_id and block.kind in {BlockKind.PART, BlockKind.EMPTY_PART}
        ]
        parts.sort(key=lambda part: (part[0].number, part[0].time_us))
        return [
            (block, PartInfo(block.number, block.etag, size, to_datetime(block.time_us)))
            for block, size in parts
        ]
