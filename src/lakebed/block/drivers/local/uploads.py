"""Multipart uploads on disk, which outlive the process that began them.

An upload is a folder named by its id, with a file ``address`` and one file for each part. A part's
file contains its bytes and then their MD5 in hexadecimal, so a single rename changes bytes and
ETag. An upload ends when its folder is moved among the drafts, where it is deleted.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from typing import BinaryIO, Final
from uuid import uuid4

from lakebed.base.runtime import to_datetime
from lakebed.block.address import Address, Namespace
from lakebed.block.drivers.local.files import (
    Draft,
    Sync,
    applied,
    drafted,
    explained,
    locked_file,
    sync_folder,
)
from lakebed.block.drivers.local.walk import scan
from lakebed.block.errors import UploadNotFound
from lakebed.block.store import ETag, Part, PartInfo, Upload, UploadId, WrittenPart
from lakebed.block.streams import Meter, check_parts

_ADDRESS: Final = "address"
_MD5_CHARACTERS: Final = 32
_UPLOAD_ID: Final = re.compile(r"[0-9a-f]{32}")


class LocalUploads:
    """Active uploads of a storage."""

    def __init__(self, folder: Path, drafts: Path, sync: Sync) -> None:
        self._folder = folder
        self._drafts = drafts
        self._sync = sync

    def create(self, address: Address) -> UploadId:
        upload_id = UploadId(uuid4().hex)
        draft = self._drafts / upload_id
        draft.mkdir()
        with Draft(draft, self._sync) as file:
            file.write(str(address).encode())
            file.seal()
            file.move(draft / _ADDRESS)
        sync_folder(draft, self._sync)
        draft.rename(self._folder / upload_id)
        with applied(address):
            sync_folder(self._folder, self._sync)
        return upload_id

    def put_part(
        self, address: Address, upload_id: UploadId, number: int, chunks: Iterable[bytes]
    ) -> WrittenPart:
        """Write a part; see `BlockStore.put_part`."""
        with explained(address):
            folder = self._find(address, upload_id)
        meter = Meter()
        with drafted(self._drafts, address, self._sync) as draft:
            for chunk in meter.through(chunks):
                with explained(address):
                    draft.write(chunk)
            with explained(address):
                draft.write(meter.md5.encode())
                draft.seal()
                try:
                    draft.move(folder / _part_name(number))
                except FileNotFoundError as error:
                    raise UploadNotFound(address, upload_id) from error
            # The upload may have ended since, which deletes its parts.
            with applied(address), suppress(FileNotFoundError):
                sync_folder(folder, self._sync)
        return WrittenPart(number, ETag(meter.md5), meter.md5)

    def parts(self, address: Address, upload_id: UploadId) -> list[PartInfo]:
        """Return the parts by ascending number; see `BlockStore.list_parts`."""
        folder = self._find(address, upload_id)
        infos = []
        try:
            for name in map(os.fsdecode, scan(os.fsencode(folder))):
                if name != _ADDRESS:
                    with (folder / name).open("rb") as file:
                        infos.append(_part_info(int(name), file))
        except FileNotFoundError as error:
            # The upload ended meanwhile: parts disappear only with the whole folder, in a single
            # step.
            raise UploadNotFound(address, upload_id) from error
        return sorted(infos, key=lambda info: info.number)

    @contextmanager
    def ending(self, address: Address, upload_id: UploadId) -> Iterator[None]:
        """Prevent other clients from ending an upload during the block."""
        folder = self._find(address, upload_id)
        with ExitStack() as stack:
            try:
                stack.enter_context(locked_file(folder / _ADDRESS))
            except FileNotFoundError as error:
                raise UploadNotFound(address, upload_id) from error
            # The previous lock holder may have ended the upload.
            self._find(address, upload_id)
            yield

    def join(
        self, address: Address, upload_id: UploadId, parts: Sequence[Part], draft: Draft
    ) -> None:
        """Copy the named parts into a draft, without reading them into this process."""
        check_parts(parts, {part.number: part for part in self.parts(address, upload_id)})
        for part in parts:
            # One at a time: the number of parts may exceed the limit of open files.
            with (self._folder / upload_id / _part_name(part.number)).open("rb") as file:
                stored = _part_info(part.number, file)
                # An open file does not change; until now the part may have been uploaded again.
                check_parts([part], {part.number: stored})
                draft.copy(file.fileno(), stored.size)

    def abort(self, address: Address, upload_id: UploadId) -> None:
        """Drop an upload; see `BlockStore.abort_upload`."""
        with suppress(UploadNotFound), self.ending(address, upload_id):
            self.drop(address, upload_id)

    def drop(self, address: Address, upload_id: UploadId) -> None:
        """End an upload, inside `ending`."""
        draft = self._drafts / upload_id
        (self._folder / upload_id).rename(draft)
        with applied(address):
            sync_folder(self._folder, self._sync)
        rmtree(draft, ignore_errors=True)

    def list(self, namespace: Namespace) -> list[Upload]:
        """Return the uploads in a namespace, by path and id."""
        uploads = []
        for folder in self._folder.iterdir():
            with suppress(FileNotFoundError):
                address = Address.parse((folder / _ADDRESS).read_bytes().decode())
                if address in namespace:
                    created = to_datetime((folder / _ADDRESS).stat().st_mtime_ns // 1000)
                    uploads.append(Upload(address, UploadId(folder.name), created))
        return sorted(uploads, key=lambda upload: (upload.address, upload.upload_id))

    def _find(self, address: Address, upload_id: UploadId) -> Path:
        folder = self._folder / upload_id
        try:
            # The id is untrusted input: only a well-formed id becomes a path.
            if _UPLOAD_ID.fullmatch(upload_id) and self._address(folder) == str(address):
                return folder
        except FileNotFoundError:
            pass
        raise UploadNotFound(address, upload_id)

    def _address(self, folder: Path) -> str:
        return (folder / _ADDRESS).read_bytes().decode()


def _part_name(number: int) -> str:
    return f"{number:05d}"


def _part_info(number: int, file: BinaryIO) -> PartInfo:
    status = os.fstat(file.fileno())
    size = status.st_size - _MD5_CHARACTERS
    etag = os.pread(file.fileno(), _MD5_CHARACTERS, size).decode()
    return PartInfo(number, ETag(etag), size, to_datetime(status.st_mtime_ns // 1000))
