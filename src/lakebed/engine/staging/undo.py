"""What a write replaced under each token it wrote to, to put it back.

A writer that is told too late that it must not acknowledge leaves no trace: each staged key is
given back the value that it had, if it still has the writer's own. Nobody's acknowledged write is
lost by that. What others wrote over it stays; what it wrote over was seen by the very
compare-and-swap that replaced it.

Meanwhile, which may be a long while, nothing would name the object of the value that was replaced,
and garbage collection could take it. So the new value names it too.

A committer may have read the writer's value meanwhile. Then it is in a commit, and stays there. And
if two writers of one key are told so, one after having written over the other, the value of the
first, which has given up by then, is what the second puts back: that write failed, and is visible.
"""

from contextlib import suppress

from lakebed.engine.keys import STAGED_PREFIX
from lakebed.engine.model import StagingToken
from lakebed.engine.staging.codec import decode, encode
from lakebed.formats import AddressType, Entry
from lakebed.kv import Item, PredicateFailed, Store, Version
from lakebed.kv.store import new_version
from lakebed.runtime import Runtime


class Trail:
    """The trail of one write."""

    def __init__(self, store: Store, runtime: Runtime, entry: Entry) -> None:
        self.entry = entry
        self._store = store
        self._runtime = runtime
        self._key = STAGED_PREFIX + entry.key
        self._replaced: dict[StagingToken, Item | None] = {}
        self._versions: set[Version] = set()

    def find(self, token: StagingToken) -> Item | None:
        """Return what is staged under a token."""
        return self._store.get_many([(token.encode(), self._key)])[0]

    def prepare(self, token: StagingToken, found: Item | None) -> tuple[bytes, Version]:
        """Return the value to write over what was found, and the version to write it with."""
        # One's own value is there if the reply to an earlier write was lost: not what to put back.
        if found is None or found.predicate not in self._versions:
            self._replaced[token] = found
        version = new_version(self._runtime)
        self._versions.add(version)
        return encode(self.entry, replaced_address=self._address_of(self._replaced[token])), version

    def undo(self) -> None:
        """Put back what was replaced.

        Raises:
            OutcomeUnknown: The entry may still be visible.
        """
        for token, before in self._replaced.items():
            found = self.find(token)
            if found is None or found.predicate not in self._versions:
                continue
            # If it fails, someone wrote over it at this moment.
            with suppress(PredicateFailed):
                if before is None:
                    self._store.delete_if(token.encode(), self._key, found.predicate)
                else:
                    partition = token.encode()
                    self._store.set_if(partition, self._key, before.value, found.predicate)

    def _address_of(self, record: Item | None) -> str:
        """The address of an object that may be collected, if a record names one."""
        entry = None if record is None else decode(self.entry.key, record.value)
        return entry.address if entry and entry.address_type is AddressType.RELATIVE else ""
