"""Names of blocks, which are all that Azure remembers of a multipart upload.

Azure has no uploads. A blob has one list of blocks that were sent and not yet committed; whoever
commits names those that make up the new content, and the others are dropped. Nor does Azure know
who sent a block, or when. So all of this is in the name of a block, which has up to 64 bytes, as
many in every block of a blob:

    upload (16 bytes) | kind (1) | number (2) | time in microseconds (8) | nonce (8)

An upload begins with a block of the kind BEGUN and is over when its blocks are gone, or when there
is a block of the kind ABORTED. Blocks of long objects have such names too, for the sake of their
length. The nonce is the ETag of a part.

A part sent again is another block with the same number. Which of them is the newest, only the
clocks of their senders tell; lists go by that. Whoever completes an upload names the one meant by
its ETag, and gets that one.
"""

import struct
from base64 import b64encode
from binascii import Error as NotBase64Error
from binascii import a2b_base64
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Self

from lakebed.block.store import ETag, PartInfo, UploadId
from lakebed.block.streams import moment

_LAYOUT: Final = struct.Struct(">16sBHQ8s")


class BlockKind(IntEnum):
    """What a block is there for."""

    BEGUN = 0
    PART = 1
    EMPTY_PART = 2
    """Azure takes no block without a byte; the one in it does not count."""
    ABORTED = 3
    PUT = 4
    """Of an object that was too long for one request; it belongs to no upload."""


@dataclass(frozen=True, slots=True)
class AzureBlock:
    """A block, as its name describes it."""

    upload_id: UploadId
    kind: BlockKind
    number: int
    """Of the part; 0 for other kinds."""
    time_us: int
    nonce: bytes

    @property
    def name(self) -> str:
        """The name; undone by `parse`."""
        upload = bytes.fromhex(self.upload_id)
        packed = _LAYOUT.pack(upload, self.kind, self.number, self.time_us, self.nonce)
        return b64encode(packed).decode()

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """Return the block of a name; None for one that was sent by somebody else."""
        try:
            upload, kind, number, time_us, nonce = _LAYOUT.unpack(
                a2b_base64(name, strict_mode=True)
            )
            return cls(UploadId(upload.hex()), BlockKind(kind), number, time_us, nonce)
        except (NotBase64Error, struct.error, ValueError):
            return None

    @property
    def etag(self) -> ETag:
        """The mark of a part's content."""
        return ETag(self.nonce.hex())


class BlobUploads:
    """The uploads of one blob."""

    def __init__(self, names_and_sizes: Iterable[tuple[str, int]]) -> None:
        blocks = [(AzureBlock.parse(name), size) for name, size in names_and_sizes]
        self._blocks = [(block, size) for block, size in blocks if block is not None]
        aborted = {block.upload_id for block, _ in self._blocks if block.kind is BlockKind.ABORTED}
        self.begun = {
            block.upload_id: moment(block.time_us)
            for block, _ in self._blocks
            if block.kind is BlockKind.BEGUN and block.upload_id not in aborted
        }
        """When each upload that is not over was begun."""

    def parts(self, upload_id: UploadId) -> list[tuple[AzureBlock, PartInfo]]:
        """Return the parts of an upload by ascending number; of one sent again, the newest last."""
        parts = [
            (block, 0 if block.kind is BlockKind.EMPTY_PART else size)
            for block, size in self._blocks
            if block.upload_id == upload_id and block.kind in {BlockKind.PART, BlockKind.EMPTY_PART}
        ]
        parts.sort(key=lambda part: (part[0].number, part[0].time_us))
        return [
            (block, PartInfo(block.number, block.etag, size, moment(block.time_us)))
            for block, size in parts
        ]
