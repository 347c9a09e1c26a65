"""Storage in a local folder, as durable as its disk.

    root/
      name/path/of/an/object        local://name/path/of/an/object
      .lakebed/
        drafts/                     files being written, and folders to be deleted
        uploads/                    multipart uploads
        locks/                      one lock for all objects whose addresses share a hash

An object is written as a draft, synced, and renamed to its place; then its folder and every folder
above it are synced. A reader finds the old object or the new one, whole. A crash leaves either of
the two and perhaps a draft, which a later open deletes after a day. `put_unreferenced` is for new
addresses, unknown to readers: an object that arrives in a single chunk is written directly to its
place.

Every change of an address is made under the address's lock, because `replace` compares and renames.
Readers take no lock, nor does `put_unreferenced`, whose address no other client knows yet.

Only regular files are objects. Symbolic links in the tree are never followed, neither out of the
root nor within it. An address that is a folder, or lies below a file, cannot be written and reads
as missing.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from io import FileIO
from itertools import chain, islice
from pathlib import Path

import pyarrow as pa

from lakebed.base.errors import quoted
from lakebed.base.runtime import Runtime, to_datetime
from lakebed.block.address import Address, Namespace
from lakebed.block.drivers.local.files import (
    Draft,
    Locks,
    applied,
    check_clock_of_files,
    check_names_of_files,
    check_no_journal,
    drafted,
    drop_abandoned,
    etag_of,
    explained,
    make_folder,
    not_to_disk,
    stamp,
    sync_folder,
    to_disk,
    write_all,
)
from lakebed.block.drivers.local.tree import (
    RESERVED_FOLDER,
    SCHEME,
    FilePlace,
    OpenFolder,
    Tree,
    folder_of,
    place_of,
    refuse_link,
)
from lakebed.block.drivers.local.uploads import LocalUploads
from lakebed.block.drivers.local.walk import scan, strays, walk
from lakebed.block.errors import (
    AlreadyExists,
    InvalidAddress,
    ObjectNotFound,
    PreconditionFailed,
    StorageClosed,
    StorageUnavailable,
)
from lakebed.block.ranges import ByteRange, FileSection, resolve
from lakebed.block.store import (
    LIST_SCHEMA,
    BlockStore,
    ByteStream,
    DeleteResult,
    ETag,
    ObjectInfo,
    Part,
    PartInfo,
    PutResult,
    Stray,
    Upload,
    UploadId,
    WrittenPart,
)
from lakebed.block.streams import CHUNK_BYTES, LIST_BATCH_ROWS, Meter, check_part_number, exactly

_Condition = Callable[[OpenFolder, os.stat_result | None], None]
"""Raises unless the existing file in the folder, if any, may be replaced."""

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
# Without O_NONBLOCK, opening a named pipe in the tree would wait for a writer.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def _always(_folder: OpenFolder, _old: os.stat_result | None) -> None:
    """Allow replacing any file."""


def _listed(store: str, files: list[tuple[bytes, os.stat_result]]) -> pa.RecordBatch:
    """Return files of a store as a batch of a listing, built by column for speed."""
    named = [(text, status) for path, status in files if (text := _as_text(path)) is not None]
    columns = (
        [f"{store}/{text}" for text, _ in named],
        [status.st_size for _, status in named],
        [status.st_mtime_ns // 1000 for _, status in named],
        [etag_of(status) for _, status in named],
    )
    arrays = [pa.array(each, field.type) for each, field in zip(columns, LIST_SCHEMA, strict=True)]
    return pa.record_batch(arrays, schema=LIST_SCHEMA)


def _as_text(path: bytes) -> str | None:
    """Return a path as text, or None if it is not UTF-8 and so was not written by Lakebed."""
    try:
        return path.decode()
    except UnicodeDecodeError:
        return None


def _must_be_absent(address: Address) -> _Condition:
    def check(folder: OpenFolder, old: os.stat_result | None) -> None:
        if old is not None:
            folder.sync()  # its writer may not have synced it yet
            raise AlreadyExists(address)

    return check


class LocalBlockStore(BlockStore):
    """Files below a root folder.

    Raises:
        Forbidden: This user cannot create or write the folder.
        InvalidArgument: The file system does not store nanoseconds or equates different names, or
            an earlier version left a journal.
    """

    scheme = SCHEME
    shared_between_processes = True
    supports_presign = False
    presigned_put_creates_only = True
    part_bytes_min = 0

    def __init__(self, root: Path, runtime: Runtime, *, sync: bool = True) -> None:
        self._sync = to_disk if sync else not_to_disk
        with explained(root):
            make_folder(root, self._sync)
            root = root.resolve()
            reserved = root / RESERVED_FOLDER
            check_no_journal(reserved / "journal")
            self._drafts = reserved / "drafts"
            reserved.mkdir(exist_ok=True)
            for name in ("drafts", "uploads", "locks"):
                (reserved / name).mkdir(exist_ok=True)
            # Even if they existed: another process may have just created them.
            sync_folder(root, self._sync)
            sync_folder(reserved, self._sync)
            check_clock_of_files(self._drafts)
            check_names_of_files(self._drafts)
            drop_abandoned(self._drafts)
            self._tree = Tree(root, self._sync)
        self._root = os.fsencode(root)
        self._locks = Locks(reserved / "locks")
        self._uploads = LocalUploads(reserved / "uploads", self._drafts, self._sync)
        self._runtime = runtime
        self._closed = False

    def check_address(self, address: Address) -> None:
        self._place(address)

    def put(self, address: Address, chunks: Iterable[bytes]) -> PutResult:
        return self._put(address, chunks, _always)

    def put_unreferenced(self, address: Address, chunks: Iterable[bytes]) -> PutResult:
        place = self._place(address)
        meter = Meter()
        incoming = meter.through(chunks)
        first = list(islice(incoming, 2))
        is_whole = not first[1:]
        status = self._write_in_place(place, b"".join(first)) if is_whole else None
        if status is None:
            status = self._move_to(place, chain(first, incoming), _always, is_unreferenced=True)
        return PutResult(meter.size, meter.md5, etag_of(status))

    def put_new(self, address: Address, chunks: Iterable[bytes]) -> PutResult:
        return self._put(address, chunks, _must_be_absent(address))

    def _put(self, address: Address, chunks: Iterable[bytes], condition: _Condition) -> PutResult:
        place = self._place(address)
        meter = Meter()
        status = self._move_to(place, meter.through(chunks), condition)
        return PutResult(meter.size, meter.md5, etag_of(status))

    def _move_to(
        self,
        place: FilePlace,
        chunks: Iterable[bytes],
        condition: _Condition,
        *,
        is_unreferenced: bool = False,
    ) -> os.stat_result:
        """Write a draft and publish it; see `_publish`."""
        with self._draft(place.address) as draft:
            for chunk in chunks:
                # Inside the loop: an OSError of the caller's iterable passes through unchanged.
                with explained(place.address):
                    draft.write(chunk)
            return self._publish(draft, place, condition, is_unreferenced=is_unreferenced)

    def _write_in_place(self, place: FilePlace, data: bytes) -> os.stat_result | None:
        """Write an object durably to an unreferenced place, or return None if the place exists."""

        def create(folder: OpenFolder, name: bytes) -> tuple[OpenFolder, int]:
            return folder, os.open(name, _CREATE, 0o666, dir_fd=folder.descriptor)

        with explained(place.address):
            try:
                folder, descriptor = self._tree.within_made(place, create)
            except FileExistsError:
                return None
            try:
                try:
                    write_all(descriptor, data)
                    status = stamp(descriptor)
                except OSError:
                    os.unlink(place.name, dir_fd=folder.descriptor)
                    raise
                with applied(place.address):
                    self._sync(descriptor)
                    folder.sync()
            finally:
                os.close(descriptor)
        return status

    def get(
        self,
        address: Address,
        *,
        byte_range: ByteRange | None = None,
        etag: ETag | None = None,
    ) -> ByteStream:
        file = self._open(address, etag)
        try:
            size = os.fstat(file.fileno()).st_size
            start, length = resolve(byte_range, size)
        except BaseException:
            file.close()
            raise
        section = FileSection(file.fileno(), start, length)
        return ByteStream(_chunks(address, section), file.close, object_size=size, file=section)

    def head(self, address: Address) -> ObjectInfo:
        place = self._place(address)
        with explained(address):
            try:
                return _info(address, self._tree.within(place, _find))
            except FileNotFoundError as error:
                raise ObjectNotFound(address) from error

    def delete(self, address: Address) -> None:
        place = self._place(address)

        def unlink(folder: OpenFolder, name: bytes) -> None:
            _find(folder, name)
            os.unlink(name, dir_fd=folder.descriptor)
            with applied(address):
                folder.sync()

        with explained(address):
            try:
                with self._lock(place):
                    self._tree.within(place, unlink)
            except FileNotFoundError:
                return
            self._tree.prune(place.folder)

    def delete_many(self, addresses: Sequence[Address]) -> list[DeleteResult]:
        # In parallel, so that the disk flushes once for many.
        return self._runtime.map_parallel(self._delete_result, addresses)

    def delete_versions(self, addresses: Sequence[Address]) -> list[DeleteResult]:
        return self._runtime.map_parallel(self._delete_last, addresses)

    def copy(self, source: Address, destination: Address, *, etag: ETag | None = None) -> None:
        place = self._place(destination)
        with self._open(source, etag) as file, self._draft(destination) as draft:
            with explained(destination):
                draft.copy(file.fileno(), os.fstat(file.fileno()).st_size)
            self._publish(draft, place)

    def list_objects(
        self, namespace: Namespace, *, start_after: Address | None = None
    ) -> Iterator[pa.RecordBatch]:
        self._check_open()
        names = folder_of(self._root, namespace)
        after = self._start(namespace, start_after)
        with explained(namespace):
            try:
                self._tree.enter(names)
            except (FileNotFoundError, NotADirectoryError):
                return iter(())
        return self._batches(namespace, after.encode())

    def _batches(self, namespace: Namespace, after: bytes) -> Iterator[pa.RecordBatch]:
        base = self._tree.path((namespace.parts.bucket.encode(),))
        files = walk(base, namespace.prefix.encode(), after)
        with explained(namespace):
            while some := list(islice(files, LIST_BATCH_ROWS)):
                batch = _listed(namespace.store, some)
                if batch.num_rows:
                    yield batch

    def list_folders(self, namespace: Namespace) -> Iterator[str]:
        self._check_open()
        names = folder_of(self._root, namespace)
        with explained(namespace):
            try:
                self._tree.enter(names)
                found = scan(self._tree.path(names))
            except (FileNotFoundError, NotADirectoryError):
                return
        for name in sorted(name for name in found if name.endswith(b"/")):
            try:
                yield name.decode().removesuffix("/")
            except UnicodeDecodeError:
                continue  # not UTF-8, so not written by Lakebed

    def list_strays(self, namespace: Namespace) -> Iterator[Stray]:
        self._check_open()
        names = folder_of(self._root, namespace)
        with explained(namespace):
            try:
                self._tree.enter(names)
            except (FileNotFoundError, NotADirectoryError):
                return
            base = self._tree.path((namespace.parts.bucket.encode(),))
            for path, kind in strays(base, namespace.prefix.encode()):
                text = path.decode(errors="backslashreplace")
                yield Stray(f"{namespace.store}/{text}", kind)

    def create(self, address: Address, data: bytes) -> ETag:
        place = self._place(address)
        with self._draft(address, data) as draft:
            return etag_of(self._publish(draft, place, _must_be_absent(address)))

    def create_by_content(self, objects: Sequence[tuple[Address, bytes]]) -> list[bool]:
        files = [(self._place(address), data) for address, data in objects]
        return self._runtime.map_parallel(self._create_by_content, files)

    def _create_by_content(self, file: tuple[FilePlace, bytes]) -> bool:
        """Write a file to its place; return False if the same bytes existed.

        A file with the same bytes is replaced, too: after a failed write, readers may see bytes
        that are not on the disk.
        """
        place, data = file

        def move(folder: OpenFolder, name: bytes) -> tuple[OpenFolder, bool]:
            found = self._replaceable(folder, place)
            is_new = found is None or not _contains(folder, name, data)
            draft.move(name, folder.descriptor)
            return folder, is_new

        with self._draft(place.address, data) as draft, explained(place.address):
            draft.sync()
            folder, is_new = self._tree.within_made(place, move)
            with applied(place.address):
                folder.sync()
        return is_new

    def replace(self, address: Address, data: bytes, etag: ETag) -> ETag:
        def must_be_the_same(_folder: OpenFolder, old: os.stat_result | None) -> None:
            if old is None:
                raise FileNotFoundError(address)  # perhaps only this folder was deleted: retry
            if etag_of(old) != etag:
                raise PreconditionFailed(address)

        place = self._place(address)
        with self._draft(address, data) as draft:
            try:
                status = self._publish(draft, place, must_be_the_same, make_folder=False)
            except ObjectNotFound as error:
                raise PreconditionFailed(address) from error
        return etag_of(status)

    def create_upload(self, address: Address) -> UploadId:
        self._place(address)
        with explained(address):
            return self._uploads.create(address)

    def put_part(
        self,
        address: Address,
        upload_id: UploadId,
        number: int,
        chunks: Iterable[bytes],
        *,
        size: int,
    ) -> WrittenPart:
        self._place(address)
        check_part_number(number)
        return self._uploads.put_part(address, upload_id, number, exactly(size, chunks))

    def complete_upload(
        self, address: Address, upload_id: UploadId, parts: Sequence[Part]
    ) -> ObjectInfo:
        place = self._place(address)
        with explained(address), self._uploads.ending(address, upload_id):
            with self._draft(address) as draft:
                self._uploads.join(address, upload_id, parts, draft)
                status = self._publish(draft, place)
            with applied(address):
                self._uploads.drop(address, upload_id)
        return _info(address, status)

    def abort_upload(self, address: Address, upload_id: UploadId) -> None:
        self._place(address)
        with explained(address):
            self._uploads.abort(address, upload_id)

    def list_parts(self, address: Address, upload_id: UploadId) -> list[PartInfo]:
        self._place(address)
        with explained(address):
            return self._uploads.parts(address, upload_id)

    def list_uploads(self, namespace: Namespace) -> Iterator[Upload]:
        self._check_open()
        folder_of(self._root, namespace)
        with explained(namespace):
            return iter(self._uploads.list(namespace))

    def close(self) -> None:
        self._closed = True
        self._tree.close()

    def _check_open(self) -> None:
        if self._closed:
            raise StorageClosed

    def _place(self, address: Address) -> FilePlace:
        self._check_open()
        return place_of(self._root, address)

    def _draft(self, address: Address, data: bytes = b"") -> AbstractContextManager[Draft]:
        return drafted(self._drafts, address, self._sync, data)

    def _lock(self, place: FilePlace) -> AbstractContextManager[None]:
        return self._locks.hold(str(place.address).encode())

    def _open(self, address: Address, etag: ETag | None) -> FileIO:
        place = self._place(address)

        def open_file(folder: OpenFolder, name: bytes) -> FileIO:
            _find(folder, name)
            return FileIO(os.open(name, _READ, dir_fd=folder.descriptor))

        with explained(address):
            try:
                file = self._tree.within(place, open_file)
            except FileNotFoundError as error:
                raise ObjectNotFound(address) from error
        if etag is not None and etag != etag_of(os.fstat(file.fileno())):
            file.close()
            raise PreconditionFailed(address)
        return file

    def _publish(
        self,
        draft: Draft,
        place: FilePlace,
        condition: _Condition = _always,
        *,
        make_folder: bool = True,
        is_unreferenced: bool = False,
    ) -> os.stat_result:
        """Make a draft the object at a place, durably.

        Args:
            draft: The bytes.
            place: The target.
            condition: Checks the file to be replaced.
            make_folder: Whether to create a missing folder.
            is_unreferenced: Whether the place is not referenced yet. Then no lock is taken, and
                unless a file is replaced, the bytes are synced after the move: a journaling file
                system then writes its journal only once.

        Raises:
            ObjectNotFound: The folder is missing and not to be created, or the condition says so.
        """
        is_synced = not is_unreferenced

        def move(folder: OpenFolder, name: bytes) -> OpenFolder:
            nonlocal is_synced
            old = self._replaceable(folder, place)
            condition(folder, old)
            if old is not None and not is_synced:
                draft.sync()
                is_synced = True
            draft.move(name, folder.descriptor)
            return folder

        within = self._tree.within_made if make_folder else self._tree.within
        with explained(place.address):
            status = draft.stamp() if is_unreferenced else draft.seal()
            # Only this call changes an unreferenced address.
            with nullcontext() if is_unreferenced else self._lock(place):
                try:
                    folder = within(place, move)
                except FileNotFoundError as error:
                    raise ObjectNotFound(place.address) from error
            with applied(place.address):
                if not is_synced:
                    draft.sync()
                folder.sync()
        return status

    def _replaceable(self, folder: OpenFolder, place: FilePlace) -> os.stat_result | None:
        """Return the status of the file at a place, or None if the place is free.

        Raises:
            InvalidAddress: The place is taken by a folder with files, a link or a special file.
        """
        try:
            status = os.stat(place.name, dir_fd=folder.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if stat.S_ISREG(status.st_mode):
            return status
        refuse_link(status, place.name)
        if stat.S_ISDIR(status.st_mode) and self._tree.clear((*place.folder, place.name)):
            return None  # empty folders left by deleted objects
        raise InvalidAddress(f"{place.address} is a folder with objects, or not a regular file")


def _contains(folder: OpenFolder, name: bytes, data: bytes) -> bool:
    """Return whether a file contains exactly these bytes."""
    with FileIO(os.open(name, _READ, dir_fd=folder.descriptor)) as file:
        return os.fstat(file.fileno()).st_size == len(data) and file.readall() == data


def _find(folder: OpenFolder, name: bytes) -> os.stat_result:
    """Return the status of an object's file.

    Raises:
        FileNotFoundError: The file does not exist.
        InvalidAddress: The file is a link or a special file.
    """
    status = os.stat(name, dir_fd=folder.descriptor, follow_symlinks=False)
    if stat.S_ISREG(status.st_mode):
        return status
    if stat.S_ISDIR(status.st_mode):
        raise FileNotFoundError(name)
    refuse_link(status, name)
    raise InvalidAddress(f"{quoted(name)} is not a regular file")


def _info(address: Address, status: os.stat_result) -> ObjectInfo:
    mtime = to_datetime(status.st_mtime_ns // 1000)
    return ObjectInfo(address, status.st_size, mtime, etag_of(status))


def _chunks(address: Address, file: FileSection) -> Iterator[bytes]:
    start, end = file.start + file.taken, file.start + file.size
    while start < end:
        with explained(address):
            chunk = os.pread(file.descriptor, min(CHUNK_BYTES, end - start), start)
        if not chunk:
            raise StorageUnavailable(f"{address}: the file ended {end - start} bytes early")
        yield chunk
        start += len(chunk)
