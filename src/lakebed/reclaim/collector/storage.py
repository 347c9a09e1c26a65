"""The storage of one repository, as opened by the driver and every executor, and its state."""

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final, Protocol

from lakebed.base.runtime import Runtime, ThreadRuntime
from lakebed.block import (
    Address,
    AlreadyExists,
    AzureSettings,
    BlockSettings,
    BlockStore,
    DeleteResult,
    ETag,
    GCSSettings,
    LocalSettings,
    Namespace,
    ObjectNotFound,
    PreconditionFailed,
    S3Settings,
    open_block,
)
from lakebed.formats import OWNER_PATH, decode_owner
from lakebed.formats.gc_files import (
    GCAdopted,
    GCMarker,
    GCRunID,
    GCState,
    decode_state,
    encode_state,
)
from lakebed.formats.layout import gc_path, marker_path, state_path
from lakebed.reclaim.collector.errors import InvalidOption, NotTheOwner, Overtaken, WrongStorage
from lakebed.reclaim.collector.rules import is_adopted


@dataclass(frozen=True, slots=True)
class Storage:
    """Location of a repository's objects; pickled to executors."""

    settings: BlockSettings
    namespace: Namespace
    repository_uid: str
    versions: str = "keep"
    """The server's setting `gc.versions`: ``keep`` or ``delete``."""
    adopted: tuple[GCAdopted, ...] = ()
    """Adopted namespaces, treated as the repository's own by a run."""
    opened: BlockStore | None = field(default=None, repr=False)
    """The storage, if the run is made by a process that has opened it."""

    @property
    def block(self) -> BlockStore:
        """The storage, opened once in each process."""
        return self.opened or _opened(self.settings)

    @property
    def runtime(self) -> Runtime:
        """Clock, randomness and concurrency of the process."""
        return ThreadRuntime()

    @property
    def is_on_disk(self) -> bool:
        return isinstance(self.settings, LocalSettings)

    def file(self, run_id: GCRunID, name: str) -> Address:
        return self.namespace.address(gc_path(self.repository_uid, run_id, name))

    def object_at(self, path: str) -> Address:
        """Return the address of an object; an adopted object's path is its address."""
        return Address.parse(path) if is_adopted(path) else self.namespace.address(path)

    def delete(self, addresses: Sequence[Address]) -> list[DeleteResult]:
        """Delete objects, with all their versions if `versions` is ``delete``."""
        if self.versions == "delete":
            return self.block.delete_versions(addresses)
        return self.block.delete_many(addresses)

    def check_owner(self) -> None:
        """Raise `NotTheOwner` unless all namespaces still belong to the same repository."""
        others = [Namespace.parse(each.storage_namespace) for each in self.adopted]
        for namespace in (self.namespace, *others):
            address = namespace.address(OWNER_PATH)
            owner = decode_owner(self.block.read(address), file=str(address))
            if owner.unique_id != self.repository_uid:
                raise NotTheOwner(str(namespace), self.repository_uid, owner.unique_id)


class MarkerServer(Protocol):
    """A server that writes a marker into its storage, to identify the storage."""

    def write_marker(self) -> tuple[GCMarker, Path | None]:
        """Write a marker; return it, and the folder if the storage is on the server's own disk."""


def open_storage(server: MarkerServer, settings: BlockSettings | None = None) -> Storage:
    """Return the storage of a repository, verified to be the server's.

    `server` writes a marker to its storage, which must be found here. Without `settings`, the
    settings of the server and the environment are used.

    Raises:
        WrongStorage: The settings lead to another storage, perhaps a copy.
        InvalidOption: The storage cannot be opened from here.
        NotTheOwner: The repository was just deleted and created again.
        ClientError: The server refused, or did not answer.
        BlockError: The storage refused or failed.
    """
    return find_storage(*server.write_marker(), settings)


def find_storage(
    marker: GCMarker, local_root: Path | None, settings: BlockSettings | None = None
) -> Storage:
    """Return the storage that contains a server's marker; raises as `open_storage` does."""
    namespace = Namespace.parse(marker.storage_namespace)
    if settings is None:
        settings = block_settings(namespace, local_root=local_root, environ=os.environ)
    storage = Storage(settings, namespace, marker.unique_id, marker.versions)
    if _found(storage, namespace.address(marker_path(marker))) != marker.nonce.encode():
        raise WrongStorage(
            f"the marker just written by the server to {namespace} is missing here: this is not the"
            f" server's storage{_hint(settings)}"
        )
    storage.check_owner()
    return storage


def block_settings(
    namespace: Namespace, *, local_root: Path | None, environ: Mapping[str, str]
) -> BlockSettings:
    """Return how to open the storage of a namespace.

    Credentials of a cloud are found as by the vendor's tools. For S3, the region and the endpoint
    are taken from the variables of these tools.

    Raises:
        InvalidOption: The folder of a local storage is not known.
    """
    scheme = namespace.parts.scheme
    if scheme == "local":
        if local_root is None:
            raise InvalidOption(
                f"{namespace} is on the server's own disk: give its folder on this machine by"
                " --local-root"
            )
        return LocalSettings(local_root)
    if scheme == "s3":
        endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")
        region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "us-east-1"
        return S3Settings(region=region, endpoint=endpoint, path_style=endpoint is not None)
    if scheme == "gs":
        return GCSSettings()
    if scheme == "https":
        return AzureSettings(account=namespace.parts.host.partition(".")[0])
    if scheme != "mem":
        raise InvalidOption(
            f"{namespace} has the driver of another package: garbage is collected by the server"
        )
    raise InvalidOption(
        f"{namespace} is in the server's memory: garbage collection is not possible"
    )


def _found(storage: Storage, address: Address) -> bytes | None:
    if isinstance(storage.settings, LocalSettings):
        # Not through the driver: opening an arbitrary folder would initialize it as a storage.
        file = storage.settings.root / str(address).removeprefix("local://")
        try:
            return file.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise WrongStorage(f"cannot read the storage: {error}") from error
    try:
        return storage.block.read(address)
    except ObjectNotFound:
        return None


def _hint(settings: BlockSettings) -> str:
    if not isinstance(settings, LocalSettings):
        return ""
    return f" ({settings.root}): give its folder on this machine by --local-root"


@cache
def _opened(settings: BlockSettings) -> BlockStore:
    return open_block(settings)


_LOGGER: Final = logging.getLogger(__name__)

_OVERTAKEN: Final = "another run ended first: start again, one run at a time"


@dataclass(frozen=True, slots=True)
class SavedState:
    """The saved state at the start of a run, with its ETag."""

    storage: Storage
    state: GCState | None
    etag: ETag | None

    @classmethod
    def read(cls, storage: Storage) -> "SavedState":
        """Return the state of the previous run; raise `FormatError` if it is unreadable."""
        address = storage.namespace.address(state_path(storage.repository_uid))
        try:
            # In this order: if the state changes in between, replacing it will fail.
            etag = storage.block.head(address).etag
            data = storage.block.read(address)
        except ObjectNotFound:
            return cls(storage, None, None)
        return cls(storage, decode_state(data, file=str(address)), etag)

    def check_latest(self) -> None:
        """Raise `Overtaken` if another run has ended since, whose observation may disagree."""
        if SavedState.read(self.storage).etag != self.etag:
            raise Overtaken(_OVERTAKEN)

    def replace(self, state: GCState) -> None:
        """Save the state for the next run; raise `Overtaken` if another run has saved its state."""
        address = self.storage.namespace.address(state_path(self.storage.repository_uid))
        data = encode_state(state)
        try:
            if self.etag is None:
                self.storage.block.create(address, data)
            else:
                self.storage.block.replace(address, data, self.etag)
        except (AlreadyExists, PreconditionFailed) as error:
            raise Overtaken(_OVERTAKEN) from error
        _LOGGER.debug("run %s saved its state at %s", state.run_id, address)
