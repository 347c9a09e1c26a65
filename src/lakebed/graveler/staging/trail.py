"""What a write replaced under each token it wrote to, to put it back.

A writer that is told too late that it must not acknowledge leaves no trace: each staged key is
given back the value that it had, if it still has the writer's own. Nobody's acknowledged write is
lost by that. What others wrote over it stays; what it wrote over was seen by the very
compare-and-swap that replaced it.

A committer may have read the writer's value meanwhile. Then it is in a commit, and stays there.
"""

from contextlib import suppress

from lakebed.formats import Entry
from lakebed.graveler.keys import STAGED_PREFIX
from lakebed.graveler.model import StagingToken
from lakebed.graveler.staging.values import encode
from lakebed.kv import ABSENT, OutcomeUnknown, Predicate, PredicateFailed, Store
from lakebed.kv import Entry as Record


class Trail:
    """The trail of one write."""

    def __init__(self, store: Store, entry: Entry) -> None:
        self.entry = entry
        self._store = store
        self._key = STAGED_PREFIX + entry.key
        self._value = encode(entry)
        self._replaced: dict[StagingToken, Record | None] = {}

    def write(self, token: StagingToken) -> bool:
        """Write the entry over what is staged now; whether it certainly was written."""
        found = self._find(token)
        self.note(token, found)
        predicate: Predicate = ABSENT if found is None else found.predicate
        try:
            self._store.set_if(token.encode(), self._key, self._value, predicate)
        except (PredicateFailed, OutcomeUnknown):
            return False
        return True

    def note(self, token: StagingToken, found: Record | None) -> None:
        """Remember what was found just before writing over it."""
        # One's own value is there if the reply to an earlier write was lost: not what to put back.
        if token not in self._replaced or found is None or found.value != self._value:
            self._replaced[token] = found

    def undo(self) -> None:
        """Put back what was replaced.

        Raises:
            OutcomeUnknown: The entry may still be visible.
        """
        for token, before in self._replaced.items():
            found = self._find(token)
            if found is None or found.value != self._value:
                continue
            # If it fails, someone wrote over it at this moment.
            with suppress(PredicateFailed):
                if before is None:
                    self._store.delete_if(token.encode(), self._key, found.predicate)
                else:
                    partition = token.encode()
                    self._store.set_if(partition, self._key, before.value, found.predicate)

    def _find(self, token: StagingToken) -> Record | None:
        return self._store.get_many([(token.encode(), self._key)])[0]
