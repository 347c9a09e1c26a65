"""Undoing a write: what it replaced under each token, so that it can be put back.

A writer may learn too late that it must not acknowledge. Then it takes its write back: each staged
key gets the value it had before, if it still has the writer's own. That loses nobody's acknowledged
write. What others wrote over it stays; and what it wrote over was seen by the very compare-and-swap
that replaced it. A proposal beside the value (`cells`) does not protect it: the undo goes by the
version of the value, and drops the proposal too.

Until then, which may be long, no staged value would name the object of the value that was replaced,
and garbage collection could take it. So the new value names it too.

Two things may still be seen of a write that was taken back. A committer may have read the value
before: then it is in a commit, and stays there. And if two writers of one key take their writes
back, and the second had written over the first, the second puts back the value of the first.
"""

from contextlib import suppress

from lakebed.base.runtime import Runtime
from lakebed.engine.keys import STAGED_PREFIX
from lakebed.engine.model import StagingToken
from lakebed.engine.staging.cells import value_of, version_of
from lakebed.engine.staging.codec import decode, encode
from lakebed.formats import Entry
from lakebed.kv import Item, PredicateFailed, Store, Version
from lakebed.kv.store import applied_before, new_version


class UndoLog:
    """What one write replaced."""

    def __init__(self, store: Store, runtime: Runtime, entry: Entry) -> None:
        self.entry = entry
        self._store = store
        self._runtime = runtime
        self._key = STAGED_PREFIX + entry.key
        self._replaced: dict[StagingToken, bytes | None] = {}
        self._versions: set[Version] = set()

    def find(self, token: StagingToken) -> Item | None:
        """Return the cell under a token."""
        return self._store.get_many([(token.encode(), self._key)])[0]

    def prepare(self, token: StagingToken, found: Item | None) -> tuple[bytes, Version]:
        """Return the value to write over what was found, and the version to write it with."""
        # If the reply to an earlier write was lost, our own value is there: not what to put back.
        if found is None or not self._is_own(found):
            self._replaced[token] = None if found is None else value_of(found)
        before, version = self._replaced[token], new_version(self._runtime)
        self._versions.add(version)
        # Until an undo, no other staged value may reference the object of the entry below.
        entry = None if before is None else decode(self.entry.key, before)
        address = "" if entry is None else entry.address
        return encode(self.entry, replaced_address=address), version

    def undo(self) -> None:
        """Put back what was replaced.

        Raises:
            OutcomeUnknown: The entry may still be visible.
        """
        for token, before in self._replaced.items():
            # An undo that changed nothing leaves what the write changed.
            with applied_before(any_step=True):
                self._undo_in(token, before)

    def _undo_in(self, token: StagingToken, before: bytes | None) -> None:
        while (found := self.find(token)) is not None and self._is_own(found):
            # If it fails, someone has written over the value, and that stays; or has made a
            # proposal beside it, or taken one away.
            with suppress(PredicateFailed):
                if before is None:
                    self._store.delete(token.encode(), self._key, found.predicate)
                else:
                    self._store.set(token.encode(), self._key, before, found.predicate)
                return

    def _is_own(self, found: Item) -> bool:
        """Whether the value of a cell is this write's own, perhaps with a proposal beside it."""
        return version_of(found) in self._versions
