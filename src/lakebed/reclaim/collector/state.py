"""Reading and replacing the state of a repository's garbage collection."""

import logging
from dataclasses import dataclass
from typing import Final

from lakebed.block import AlreadyExists, ETag, ObjectNotFound, PreconditionFailed
from lakebed.formats.gc_state import GCState, decode_state, encode_state
from lakebed.formats.layout import state_path
from lakebed.reclaim.collector.errors import Overtaken
from lakebed.reclaim.collector.storage import Storage

_LOGGER: Final = logging.getLogger(__name__)

_OVERTAKEN: Final = "another run ended first: start again, and make one run at a time"


@dataclass(frozen=True, slots=True)
class SavedState:
    """The state that a run begins with, and its ETag."""

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
            # In this order: if the state changes in between, replacing it will fail.
            etag = storage.block.head(address).etag
            data = storage.block.read(address)
        except ObjectNotFound:
            return cls(storage, None, None)
        return cls(storage, decode_state(data, file=str(address)), etag)

    def check_latest(self) -> None:
        """Make sure that no other run has ended since.

        Raises:
            Overtaken: One has, and its look may disagree with the candidates of this run.
        """
        if SavedState.read(self.storage).etag != self.etag:
            raise Overtaken(_OVERTAKEN)

    def replace(self, state: GCState) -> None:
        """Leave a state to the next run.

        Raises:
            Overtaken: Another run has left one first.
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
        _LOGGER.debug("run %s left its state at %s", state.run_id, address)
