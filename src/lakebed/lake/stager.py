"""Staging objects that were just stored: the last step of uploads and copies."""

import logging
from collections.abc import Mapping
from typing import Final

from lakebed.base.errors import LakebedError
from lakebed.base.runtime import Runtime
from lakebed.block import Address, BlockError, BlockStore
from lakebed.engine.engine import Engine
from lakebed.engine.errors import PreconditionFailed, Stale, TooManyTries
from lakebed.engine.reading import REFUSALS, Reading
from lakebed.engine.staging.writer import Condition, IsFresh, check_condition
from lakebed.formats import Entry
from lakebed.lake.addresses import Freshness, Issued
from lakebed.lake.model import ObjectStats, new_entry, stats_at, stats_of
from lakebed.lake.repeats import Attempt

_LOGGER: Final = logging.getLogger(__name__)

_NEVER_VISIBLE: Final = (*REFUSALS, PreconditionFailed, Stale, TooManyTries)
"""How a conditional write ends whose entry was never visible. After any error of another write the
entry may have been visible for a moment, and so may have been committed: its object is left to
garbage collection."""


class Stager:
    """Makes stored objects visible."""

    def __init__(
        self, engine: Engine, block: BlockStore, runtime: Runtime, freshness: Freshness
    ) -> None:
        self._readings = engine.readings
        self._reader = engine.reader
        self._writer = engine.writer
        self._block = block
        self._runtime = runtime
        self._freshness = freshness

    def check(self, known: Reading, path: bytes, condition: Condition) -> None:
        """Refuse a write whose condition does not hold now, before any work is done for it.

        Raises:
            PreconditionFailed: The condition does not hold.
        """
        check_condition(condition, path, self._reader.look(known, path)[0])

    def put(
        self,
        known: Reading,
        entry: Entry,
        *,
        condition: Condition | None,
        digest: str | None = None,
        is_fresh: IsFresh | None = None,
    ) -> Entry | None:
        """Stage an entry, always or on a condition.

        Args:
            known: The branch, as it was read for this write.
            entry: What to stage.
            condition: Whether to write, given what is there.
            digest: That of a conditional request, if its client sent an id: nothing is staged if
                another attempt of the request took effect.
            is_fresh: Whether the entry may be acknowledged, asked after it was staged or proposed.

        Returns:
            The entry that was staged, by this attempt or another, or None if that of the other was
            replaced since.

        Raises:
            As `Writer.put` and `Writer.put_if`.
        """
        if condition is None:
            self._writer.put(known, entry, is_fresh)
            return entry
        attempt = Attempt(entry, condition, digest)
        self._writer.put_if(known, entry.key, attempt, is_fresh)
        return attempt.staged

    def stage(
        self,
        known: Reading,
        path: bytes,
        issued: Issued,
        *,
        size: int,
        checksum: str,
        content_type: str,
        metadata: Mapping[str, str],
        condition: Condition | None,
        digest: str | None = None,
        watch: IsFresh | None = None,
    ) -> ObjectStats:
        """Stage the entry of an object at an address that nobody else has; arguments as for `put`.

        If it is certain that the entry was never visible, the object is removed. With `watch`, it
        is acknowledged only if that holds after it was staged, or proposed.

        Raises:
            RepositoryNotFound, ReadOnly, BranchNotFound, Protected: It cannot be written to any
                more.
            PreconditionFailed: The condition does not hold.
            Stale: The object is too old to be staged, or the watch does not hold.
            TooManyTries, OutcomeUnknown: The object may be visible.
            Without a condition, the object may have been visible for a while after any of these,
            and may be in a commit. With one, only after `OutcomeUnknown`.
        """
        entry = new_entry(
            path,
            issued.text,
            size=size,
            checksum=checksum,
            modified=self._runtime.now(),
            content_type=content_type,
            metadata=metadata,
        )
        is_young = self._freshness.test(issued.path)
        is_fresh = is_young if watch is None else lambda: is_young() and watch()
        try:
            known = self._readings.renewed(known, path)
        except LakebedError:
            self.discard(issued.address)
            raise
        try:
            staged = self.put(known, entry, condition=condition, digest=digest, is_fresh=is_fresh)
        except _NEVER_VISIBLE:
            if condition is not None:
                self.discard(issued.address)
            raise
        if staged is not None and staged.address == issued.text:
            return stats_at(issued.address, staged)
        self.discard(issued.address)
        return stats_of(known.repository.namespace, staged or entry)

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
