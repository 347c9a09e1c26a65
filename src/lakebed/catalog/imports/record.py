"""The record of an import, and how it is taken up, kept alive, canceled and ended.

Every change of the record is a compare-and-swap on what its writer last read or wrote. So of all
who want to change it, each sees what the others did before it goes on:

- *Taking up.* A process that runs an import writes its own mark into the record. Of two that want
  to, one fails. The one before, if it lives after all, fails with its next change, and stops.
- *Canceling* makes the next change of the process that runs it fail.
- *Publishing.* The id of each commit is noted before the branch is swapped to it. Once one is
  noted, the import cannot be canceled any more, and whoever takes it up looks for that commit
  first (`Engine.find_published`), so that it is never published twice.
"""

from collections.abc import Callable
from typing import Final

from lakebed.catalog import records_pb2 as pb
from lakebed.catalog.keys import copy_of
from lakebed.kv import OutcomeUnknown, PredicateFailed, StoreUnavailable
from lakebed.kv.records import Record, Records
from lakebed.runtime import Runtime
from lakebed.times import now_us

SKIPPED_SHOWN_MAX: Final = 100
"""Of so many skipped objects the addresses are kept; the others are counted."""

_TRIES: Final = 10
_MARK_BYTES: Final = 16

Edit = Callable[[pb.Import], None]
"""Changes a record; to apply it again must do no harm."""


class NotOurs(Exception):  # noqa: N818 - it says what happened
    """The import was canceled, or another process runs it by now."""


class HeldImport:
    """An import that this process runs."""

    def __init__(
        self, records: Records[pb.Import], record: Record[pb.Import], runtime: Runtime
    ) -> None:
        """Prepare to take an import up; nothing is written before `take`."""
        self._records = records
        self._record = record
        self._runtime = runtime
        self._mark = b""
        self._lock = runtime.lock()

    @property
    def message(self) -> pb.Import:
        """The record as this process last wrote it; not to be changed."""
        return self._record.message

    def take(self) -> bool:
        """Make this process the one that runs the import; return whether it is."""
        mark = self._runtime.random_bytes(_MARK_BYTES)
        taken = copy_of(self._record.message)
        taken.owner = mark
        taken.attempts += 1
        taken.updated_us = now_us(self._runtime)
        try:
            version = self._records.set_if(self._record.name, taken, self._record.predicate)
        except PredicateFailed:
            return False
        self._mark = mark
        self._record = Record(self._record.name, taken, version)
        return True

    def beat(self) -> None:
        """Give a sign of life; raises as `change` does."""
        self.change(lambda _message: None)

    def change(self, edit: Edit) -> None:
        """Change the record.

        Raises:
            NotOurs: The import was canceled, or another process took it up.
            OutcomeUnknown: The store does not answer.
        """
        with self._lock:
            for left in reversed(range(_TRIES)):
                changed = copy_of(self._record.message)
                edit(changed)
                changed.updated_us = now_us(self._runtime)
                try:
                    version = self._records.set_if(
                        self._record.name, changed, self._record.predicate
                    )
                except StoreUnavailable:
                    raise
                except PredicateFailed:
                    self._read_again()
                except OutcomeUnknown:
                    if not left:
                        raise
                    self._read_again()
                else:
                    self._record = Record(self._record.name, changed, version)
                    return
            raise NotOurs

    def _read_again(self) -> None:
        """Read the record, which an earlier try may have written.

        Raises:
            NotOurs: Somebody else wrote it.
        """
        found = self._records.find(self._record.name)
        if (
            found is None
            or found.message.owner != self._mark
            or found.message.state != pb.IMPORT_STATE_RUNNING
        ):
            raise NotOurs
        self._record = found
