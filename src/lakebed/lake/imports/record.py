"""The record of an import (a `LeasedRecord`): how it is taken up, canceled and ended.

- *Canceling* makes the next change of the process that runs it fail.
- *Publishing.* The id of each commit is noted before the branch is swapped to it. Once one is
  noted, the import cannot be canceled any more, and whoever takes it up looks for that commit
  first (`Publisher.find_published`), so that it is never published twice.
"""

from collections.abc import Callable
from typing import Final

from lakebed.engine.leases import LeasedRecord
from lakebed.lake import records_pb2 as pb

SKIPPED_SHOWN_MAX: Final = 100
"""Of so many skipped objects the addresses are kept; the others are counted."""

Edit = Callable[[pb.Import], None]
"""Changes a record; to apply it again must do no harm."""


class LeasedImport(LeasedRecord[pb.Import]):
    """An import that this process runs."""

    def take_up(self) -> bool:
        """Make this process the one that runs the import; return whether it is."""

        def count(message: pb.Import) -> None:
            message.attempts += 1

        return self.take(count)

    def _goes_on(self, message: pb.Import) -> bool:
        return message.state == pb.IMPORT_STATE_RUNNING
