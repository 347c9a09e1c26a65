"""Commit ids of lakeFS: a hash of the fields, each with its type and its length.

Commits migrated from lakeFS keep their ids, which users may have written down. The metarange id in
lakeFS, covered by the id and without a field of its own in the record, is in the nonce.
"""

import hashlib

from lakebed.engine import records_pb2 as pb

_TEXT, _NUMBER, _TEXTS, _TEXT_MAP, _EMBEDDED = b"\x01", b"\x02\x08", b"\x03", b"\x04", b"\x05\x00"
_MICROSECONDS = 1_000_000


def lakefs_id(record: pb.Commit, *, swapped: bool) -> str:
    """Return the lakeFS id of a commit; `swapped` if its parents are in the other order there."""
    digest = hashlib.sha256()
    for text in ("commit:v1", record.committer, record.message, record.nonce.decode()):
        digest.update(_text(text))
    digest.update(_number(record.created_us // _MICROSECONDS))
    digest.update(_TEXT_MAP + _number(len(record.metadata)))
    for key, value in sorted(record.metadata.items()):
        digest.update(_text(key) + _text(value))
    parents = record.parents[::-1] if swapped else record.parents
    listed = _TEXTS + _number(len(parents)) + b"".join(map(_text, parents))
    digest.update(_EMBEDDED + _number(digest.digest_size) + hashlib.sha256(listed).digest())
    return digest.hexdigest()


def _text(text: str) -> bytes:
    data = text.encode()
    return _TEXT + _number(len(data)) + data


def _number(number: int) -> bytes:
    return _NUMBER + number.to_bytes(8, "big", signed=True)
