"""Downloads in parallel parts, for large objects and presigned URLs.

An interrupted part resumes. All parts belong to one version of the object.
"""

import hashlib
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Final

import typer

from lakebed.clients.cli.commands.fs.parallel import Parallel
from lakebed.clients.cli.commands.fs.transfer import Step, compare, drafted, is_md5, read_request
from lakebed.clients.cli.errors import CommandError
from lakebed.clients.cli.uris import PathUri
from lakebed.clients.http.errors import Unreachable
from lakebed.clients.http.http import Client
from lakebed.wire.objects import ObjectStats, StatQuery

PART_BYTES: Final = 8 << 20
_PART_BYTES_MIN: Final = 1 << 10
_TRIES_MAX: Final = 3

PartSizeOption = Annotated[
    int,
    typer.Option(
        "--part-size", min=_PART_BYTES_MIN, metavar="BYTES", help="Part size for larger objects"
    ),
]
PreSignOption = Annotated[
    bool, typer.Option("--pre-sign", help="Transfer directly to or from the storage")
]


def stat_object(client: Client, uri: PathUri, *, presign: bool = False) -> ObjectStats:
    """Return the metadata of an object; with `presign`, with a presigned URL as address."""
    query = StatQuery(path=uri.path, presign=presign)
    found = client.objects.stat(uri.repository, uri.ref, query)
    if presign and not found.physical_address.startswith(("http://", "https://")):
        raise CommandError(
            f"the storage of {uri} does not support presigned URLs: read through the server"
        )
    return found


def fetch_in_parts(
    client: Client,
    source: PathUri,
    target: Path,
    found: ObjectStats,
    *,
    step: Step,
    part_size: int = PART_BYTES,
    parallelism: int = 1,
    pre_sign: bool = False,
) -> int:
    """Download an object to a file, which appears when it is complete; return its size.

    Parts of `part_size` bytes are requested in parallel; with `pre_sign`, from the storage. Only
    the checksum and the size of `found` are used.
    """
    size = found.size_bytes or 0
    url = None
    if pre_sign:
        found = stat_object(client, source, presign=True)
        url, size = found.physical_address, found.size_bytes or 0
    part = _Part(client, source, url, found.checksum, step)
    parallel = Parallel(parallelism)
    with drafted(target) as file:
        file.truncate(size)
        starts = range(0, size, part_size)
        ends = ((start, min(start + part_size, size)) for start in starts)
        for outcome in parallel.run(ends, lambda job: part.fetch(Path(file.name), *job)):
            if outcome.error is not None:
                raise CommandError(outcome.error)
        if is_md5(found.checksum):
            with Path(file.name).open("rb") as arrived:
                compare(found.checksum, hashlib.file_digest(arrived, "md5").hexdigest(), source)
    return size


class _Part:
    """Downloader of parts of one object."""

    def __init__(
        self, client: Client, source: PathUri, url: str | None, checksum: str, step: Step
    ) -> None:
        self._client = client
        self._source = source
        self._url = url
        self._checksum = checksum
        self._step = step

    def fetch(self, draft: Path, start: int, end: int) -> None:
        """Write the bytes from `start` up to `end` to the same position in a file."""
        tries = 0
        # Opened again, so that a late part cannot write to another file.
        with draft.open("r+b") as file:
            file.seek(start)
            while start < end:
                try:
                    for chunk in self._chunks(start, end):
                        file.write(chunk)
                        start += len(chunk)
                        self._step(len(chunk))
                except Unreachable:
                    tries += 1
                    if tries == _TRIES_MAX:
                        raise

    def _chunks(self, start: int, end: int) -> Iterator[bytes]:
        # The stored bytes, without content encoding.
        headers = {"Range": f"bytes={start}-{end - 1}", "Accept-Encoding": "identity"}
        if self._url is not None:
            opened = self._client.stream_url("GET", self._url, headers=headers)
        else:
            opened = self._client.open(read_request(self._source), headers=headers)
        with opened as response:
            if response.status_code != HTTPStatus.PARTIAL_CONTENT:
                raise CommandError(
                    f"the answer for bytes {start} to {end - 1} of {self._source} has status"
                    f" {response.status_code}, not 206: check for a proxy that ignores ranges"
                )
            etag = response.headers.get("ETag", "").strip('"')
            if self._url is None and etag != self._checksum:
                raise CommandError(f"{self._source} was replaced during the download: try again")
            yield from response.iter_raw()
