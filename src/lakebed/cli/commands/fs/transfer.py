"""The bytes of one object, on their way there or back: in chunks, and checked at the end."""

import atexit
import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

from lakebed.cli.errors import CommandError, Damaged
from lakebed.cli.uris import PathUri
from lakebed.client.http import Client, decoded

_CHUNK_BYTES: Final = 1 << 20
_MD5_DIGITS: Final = 32

_drafts: set[Path] = set()
"""Files that are not complete yet."""

Step = Callable[[int], None]
"""Called with the size of each chunk; it may raise to end the transfer."""


def send_file(
    client: Client,
    target: PathUri,
    source: BinaryIO,
    *,
    step: Step,
    content_type: str | None = None,
) -> dict[str, Any]:
    """Upload an open file from its current place to its end.

    Returns:
        The server's description of the new object.

    Raises:
        ClientError: The server refused it, or did not answer.
        CommandError: The file became shorter during the upload.
        Damaged: The server received other bytes than were sent.
    """
    size = os.fstat(source.fileno()).st_size - source.tell()
    checksum = hashlib.md5(usedforsecurity=False)

    def chunks() -> Iterator[bytes]:
        left = size
        while left:
            chunk = source.read(min(_CHUNK_BYTES, left))
            if not chunk:
                raise CommandError("the file became shorter while it was uploaded")
            checksum.update(chunk)
            left -= len(chunk)
            step(len(chunk))
            yield chunk

    with client.stream(
        "POST",
        "repositories",
        target.repository,
        "branches",
        target.ref,
        "objects",
        query={"path": target.path},
        content=chunks(),
        headers={
            "Content-Length": str(size),
            "Content-Type": content_type or "application/octet-stream",
        },
        transfer=True,
    ) as response:
        response.read()
        stats: dict[str, Any] = decoded(response)
    _compare(stats.get("checksum", ""), checksum.hexdigest(), target)
    return stats


def fetch_file(client: Client, source: PathUri, target: Path, *, step: Step) -> int:
    """Download an object to a file, which appears when it is complete and not before.

    Returns:
        Its size in bytes.

    Raises:
        ClientError: The server refused, or the connection broke.
        Damaged: The bytes do not match the server's checksum.
        OSError: The file cannot be written.
    """
    # In the same folder, so that the last step is a rename; short, as the name may be long.
    draft = target.with_name(f".lakebed-{secrets.token_hex(8)}.part")
    _drafts.add(draft)
    try:
        with draft.open("xb") as file:
            size = _fetch(client, source, file, step=step)
        draft.replace(target)
    finally:
        _remove(draft)
    return size


def _remove(draft: Path) -> None:
    with suppress(FileNotFoundError):
        draft.unlink()
    _drafts.discard(draft)


@atexit.register
def _remove_drafts() -> None:
    """Remove the files of transfers that hung when the process ended."""
    for draft in list(_drafts):
        _remove(draft)


def _fetch(client: Client, source: PathUri, file: BinaryIO, *, step: Step) -> int:
    checksum, size = hashlib.md5(usedforsecurity=False), 0
    with client.stream(
        "GET",
        "repositories",
        source.repository,
        "refs",
        source.ref,
        "objects",
        query={"path": source.path},
        # The file shall hold the object's own bytes.
        headers={"Accept-Encoding": "identity"},
        transfer=True,
    ) as response:
        for chunk in response.iter_raw():
            checksum.update(chunk)
            file.write(chunk)
            size += len(chunk)
            step(len(chunk))
        _compare(response.headers.get("ETag", ""), checksum.hexdigest(), source)
    return size


def _compare(expected: str, found: str, uri: PathUri) -> None:
    """Compare a checksum, if it is one of the content: those of multipart uploads are not."""
    expected = expected.strip('"')
    if len(expected) == _MD5_DIGITS and expected.isalnum() and expected != found:
        raise Damaged(f"{uri} arrived damaged: its checksum is {found}, expected {expected}")
