"""The leased record of an import: takeover, cancellation, end.

- *Canceling* makes the next change by the running process fail.
- *Publishing.* The id of each commit is recorded before the branch is swapped to it. From then on
  the import cannot be canceled, and a process that takes it over first searches for that commit
  (`Publisher.find_published`), so that it is never published twice.
"""

from collections.abc import Callable
from typing import Final

from lakebed.engine.leases import LeasedRecord
from lakebed.lake import records_pb2 as pb

SKIPPED_SHOWN_MAX: Final = 100
"""Maximum number of skipped objects whose addresses are stored; others are only counted."""

Edit = Callable[[pb.Import], None]
"""Changes a record; must be idempotent."""


class LeasedImport(LeasedRecord[pb.Import]):
    """An import leased by this process."""

    def take_up(self) -> bool:
        """Take the lease of the import; return False if another process was faster."""

        def count(message: pb.Import) -> None:
            message.attempts += 1

        return self.take(count)

    def _is_running(self, message: pb.Import) -> bool:
        return message.state == pb.IMPORT_STATE_RUNNING
