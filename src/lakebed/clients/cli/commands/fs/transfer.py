"""Transfer of one object's bytes, in chunks, with verification."""

import atexit
import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedWriter
from pathlib import Path
from typing import BinaryIO, Final

from lakebed.base.content_types import content_type_of
from lakebed.clients.cli.errors import CommandError, Damaged
from lakebed.clients.cli.uris import PathUri
from lakebed.clients.http.http import Client
from lakebed.wire.calls import WireRequest
from lakebed.wire.objects import ForcePathQuery, ObjectsAPI, ObjectStats, PathQuery, ReadQuery
from lakebed.wire.staging import AddressQuery, StagingMetadata

_CHUNK_BYTES: Final = 1 << 20
_MD5_DIGITS: Final = 32

_drafts: set[Path] = set()
"""Incomplete files."""

Step = Callable[[int], None]
"""Called with the size of each chunk; may raise to end the transfer."""


def send_file(
    client: Client,
    target: PathUri,
    source: BinaryIO,
    *,
    step: Step,
    content_type: str | None = None,
    pre_sign: bool = False,
) -> ObjectStats:
    """Upload the rest of an open file; with `pre_sign`, directly to the storage.

    The default content type is guessed from the name of the object.
    """
    size = os.fstat(source.fileno()).st_size - source.tell()
    checksum = hashlib.md5(usedforsecurity=False)

    def chunks() -> Iterator[bytes]:
        left = size
        while left:
            chunk = source.read(min(_CHUNK_BYTES, left))
            if not chunk:
                raise CommandError(
                    f"the file for {target} was truncated during the upload: upload it again"
                )
            checksum.update(chunk)
            left -= len(chunk)
            step(len(chunk))
            yield chunk

    kind = content_type or content_type_of(target.path)
    if pre_sign:
        return _send_to_storage(client, target, chunks(), size, kind)
    query = ForcePathQuery(path=target.path)
    request = ObjectsAPI.upload.request(target.repository, target.ref, query)
    headers = {"Content-Length": str(size), "Content-Type": kind}
    with client.open(request, content=chunks(), headers=headers) as response:
        stats = client.answer(request, response).value
    compare(stats.checksum, checksum.hexdigest(), target)
    return stats


def _send_to_storage(
    client: Client, target: PathUri, chunks: Iterator[bytes], size: int, kind: str
) -> ObjectStats:
    """Upload to a presigned URL, and link the object."""
    on_branch = (target.repository, target.ref)
    place = client.staging.address(*on_branch, AddressQuery(path=target.path, presign=True))
    if not place.presigned_url:
        raise CommandError(
            f"the storage of {target} does not support presigned URLs: omit --pre-sign"
        )
    # Required by Azure, ignored by others.
    headers = {"Content-Length": str(size), "x-ms-blob-type": "BlockBlob"}
    with client.stream_url("PUT", place.presigned_url, content=chunks, headers=headers) as response:
        etag = response.headers.get("ETag", "").strip('"')
    body = StagingMetadata(staging=place, checksum=etag, size_bytes=size, content_type=kind)
    return client.staging.link(*on_branch, PathQuery(path=target.path), body)


def equals_object(file: Path, found: ObjectStats) -> bool:
    """Whether a file equals an object, if the checksum can tell."""
    if not (is_md5(found.checksum) and file.is_file()):
        return False
    if file.stat().st_size != found.size_bytes:
        return False
    with file.open("rb") as content:
        return hashlib.file_digest(content, "md5").hexdigest() == found.checksum


def fetch_file(client: Client, source: PathUri, target: Path, *, step: Step) -> int:
    """Download an object to a file, which appears when it is complete; return its size."""
    with drafted(target) as file:
        return _fetch(client, source, file, step=step)


@contextmanager
def drafted(target: Path) -> Iterator[BufferedWriter]:
    """Open a draft that replaces the target at the end of the block, or is removed on failure."""
    # In the same directory, for a rename; with a short name, as names have a maximum length.
    draft = target.with_name(f".lakebed-{secrets.token_hex(8)}.part")
    _drafts.add(draft)
    try:
        with draft.open("xb") as file:
            yield file
        draft.replace(target)
    finally:
        _remove(draft)


def _remove(draft: Path) -> None:
    with suppress(FileNotFoundError):
        draft.unlink()
    _drafts.discard(draft)


@atexit.register
def _remove_drafts() -> None:
    """Remove the drafts of transfers still hanging at exit."""
    for draft in list(_drafts):
        _remove(draft)


def read_request(source: PathUri) -> WireRequest[bytes]:
    """Return the request for the content of an object."""
    return ObjectsAPI.get.request(source.repository, source.ref, ReadQuery(path=source.path))


def _fetch(client: Client, source: PathUri, file: BinaryIO, *, step: Step) -> int:
    checksum, size = hashlib.md5(usedforsecurity=False), 0
    # The stored bytes, without content encoding.
    headers = {"Accept-Encoding": "identity"}
    with client.open(read_request(source), headers=headers) as response:
        for chunk in response.iter_raw():
            checksum.update(chunk)
            file.write(chunk)
            size += len(chunk)
            step(len(chunk))
        compare(response.headers.get("ETag", ""), checksum.hexdigest(), source)
    return size


def is_md5(checksum: str) -> bool:
    """Whether a checksum is an MD5 of the content: those of multipart uploads are not."""
    return len(checksum) == _MD5_DIGITS and checksum.isalnum()


def compare(expected: str, found: str, uri: PathUri) -> None:
    """Compare MD5 checksums; skip others."""
    expected = expected.strip('"')
    if is_md5(expected) and expected != found:
        raise Damaged(f"{uri} was corrupted in transit: checksum {found}, expected {expected}")
