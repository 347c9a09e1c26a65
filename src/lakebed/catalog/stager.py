"""Staging objects that were just stored: the last step of uploads and copies."""

import logging
from collections.abc import Mapping
from typing import Final

from lakebed.block import Address, BlockError, BlockStore
from lakebed.catalog.freshness import Freshness
from lakebed.catalog.model import ObjectStats, new_entry, stats_of
from lakebed.catalog.repeats import put_once
from lakebed.engine.engine import Engine
from lakebed.engine.errors import (
    BranchNotFound,
    Deleting,
    EntryNotFound,
    PreconditionFailed,
    Protected,
    ReadOnly,
    RepositoryNotFound,
    Stale,
    TooManyTries,
)
from lakebed.engine.model import BranchID, Repository
from lakebed.engine.opening import Opened
from lakebed.engine.staging.writer import Condition, IsFresh, check_condition
from lakebed.errors import LakebedError
from lakebed.formats import Entry
from lakebed.formats.object_paths import ObjectPath
from lakebed.runtime import Runtime

_LOGGER: Final = logging.getLogger(__name__)

# What `Engine.put` raises before it stages anything. After any other error of a plain write the
# entry may have been visible for a moment, and so may have been committed: its object is left to
# garbage collection.
_REFUSALS: Final = (Deleting, Protected, ReadOnly, RepositoryNotFound)

# What it raises of a conditional write that was never visible.
_REFUSALS_IF: Final = (*_REFUSALS, BranchNotFound, PreconditionFailed, Stale, TooManyTries)


class Stager:
    """Makes stored objects visible."""

    def __init__(
        self, engine: Engine, block: BlockStore, runtime: Runtime, freshness: Freshness
    ) -> None:
        self._engine = engine
        self._block = block
        self._runtime = runtime
        self._freshness = freshness

    def stage(
        self,
        repository: Repository,
        branch: BranchID,
        path: bytes,
        issued: ObjectPath,
        *,
        size: int,
        checksum: str,
        content_type: str,
        metadata: Mapping[str, str],
        condition: Condition | None,
        digest: str | None = None,
        opened: Opened | None = None,
        watch: IsFresh | None = None,
    ) -> ObjectStats:
        """Stage the entry of an object at an address that nobody else has.

        If it is certain that the entry was never visible, the object is removed. With `watch`, it
        is acknowledged only if that holds after it was staged, or proposed. With `digest`, that of
        a conditional request, it is not staged if another attempt of the request took effect.

        Raises:
            RepositoryNotFound, ReadOnly, BranchNotFound, Protected: It cannot be written to.
            PreconditionFailed: The condition does not hold.
            Stale: The object is too old to be staged, or the watch does not hold. Without a
                condition, the object may have been visible for a while, and may be in a commit.
            TooManyTries: Without a condition, the object may be visible.
            OutcomeUnknown: The object may be visible.
        """
        entry = new_entry(
            path,
            str(issued),
            size=size,
            checksum=checksum,
            modified=self._runtime.now(),
            content_type=content_type,
            metadata=metadata,
        )
        is_young = self._freshness.test(issued)
        is_fresh = is_young if watch is None else lambda: is_young() and watch()
        address = repository.namespace.address(str(issued))
        seen = [opened]  # an attempt that failed shows that it is out of date
        try:
            staged = put_once(
                lambda attempt, tested: self._engine.put(
                    repository.id,
                    branch,
                    attempt,
                    condition=tested,
                    is_fresh=is_fresh,
                    unique_id=repository.unique_id,
                    opened=seen.pop() if seen else None,
                ),
                entry,
                condition,
                digest,
            )
        except LakebedError as error:
            if isinstance(error, _REFUSALS if condition is None else _REFUSALS_IF):
                self.discard(address)
            raise
        if staged is None or staged.address != entry.address:
            self.discard(address)
        return stats_of(repository.namespace, staged or entry)

    def discard(self, address: Address) -> None:
        """Remove an object that was never visible; if that fails, it is garbage."""
        try:
            self._block.delete(address)
        except BlockError as error:
            _LOGGER.warning("%s was not removed and is garbage now: %s", address, error)


def or_done(condition: Condition | None, entry: Entry) -> Condition | None:
    """Return a condition that also holds where this very entry stands already.

    For an entry that a record was decided on, once, at an address of its own: an equal one was
    staged by an earlier request for the same record, whose repeat is to succeed.
    """
    return condition and (lambda found: found == entry or condition(found))


def check_early(
    engine: Engine, repository: Repository, branch: BranchID, path: bytes, condition: Condition
) -> None:
    """Refuse a write whose condition does not hold now, before any work is done for it.

    Raises:
        PreconditionFailed: The condition does not hold.
    """
    try:
        found = engine.get_entry(repository, branch, path)
    except EntryNotFound:
        found = None
    check_condition(condition, path, found)
