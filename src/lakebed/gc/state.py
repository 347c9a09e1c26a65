"""Reading and replacing the state of a repository's garbage collection."""

from dataclasses import dataclass

from lakebed.block import AlreadyExists, ETag, ObjectNotFound, PreconditionFailed
from lakebed.formats.gc_state import GCState, decode_state, encode_state
from lakebed.formats.layout import state_path
from lakebed.gc.errors import Overtaken
from lakebed.gc.storage import Storage

_OVERTAKEN = "another run ended meanwhile: begin again, and let one run at a time"


@dataclass(frozen=True, slots=True)
class SavedState:
    """The state that a run begins with, and what tells it from any other."""

    storage: Storage
    state: GCState | None
    etag: ETag | None

    @classmethod
    def read(cls, storage: Storage) -> "SavedState":
        """Return what the run before left.

        Raises:
            FormatError: It is damaged, or of a newer Lakebed.
            BlockError: The storage refused or failed.
        """
        address = storage.namespace.address(state_path(storage.repository_uid))
        try:
            # In this order: where it changes in between, replacing it will fail.
            etag = storage.block.head(address).etag
            data = storage.block.read(address)
        except ObjectNotFound:
            return cls(storage, None, None)
        return cls(storage, decode_state(data, file=str(address)), etag)

    def check_latest(self) -> None:
        """Make sure that no other run ended meanwhile.

        Raises:
            Overtaken: One did; every look since a candidate was found must agree.
        """
        if SavedState.read(self.storage).etag != self.etag:
            raise Overtaken(_OVERTAKEN)

    def replace(self, state: GCState) -> None:
        """Leave a state to the next run.

        Raises:
            Overtaken: Another run did so first.
        """
        address = self.storage.namespace.address(state_path(self.storage.repository_uid))
        data = encode_state(state)
        try:
            if self.etag is None:
                self.storage.block.create(address, data)
            else:
                self.storage.block.replace(address, data, self.etag)
        except (AlreadyExists, PreconditionFailed) as error:
            raise Overtaken(_OVERTAKEN) from error
