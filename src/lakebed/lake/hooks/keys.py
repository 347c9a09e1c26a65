"""The records of hooks.

| partition of the repository             | what                                            |
|-----------------------------------------|-------------------------------------------------|
| runs/<run id>                           | runs, newest first: ids go down with time       |
| run_hooks/<run id>/<hook run id>        | the hooks of a run                              |
| runs_by_branch/<branch><NUL><run id>    | runs by branch, written before the run          |
| runs_by_commit/<commit id>/<run id>     | runs by commit, written before the run          |

Runs of post events that have not ended are also in a partition of their own, ``hooks``, as
``waiting/<run id>``: whoever runs them need not go through all repositories.
"""

import base64
from typing import Final, NewType

from lakebed.base.runtime import Runtime
from lakebed.kv.records import RecordKind
from lakebed.lake.hooks import records_pb2 as pb

RunID = NewType("RunID", str)
"""Names a run within its repository: 20 characters, smaller for later runs."""

RUNS: Final = RecordKind(b"runs/", pb.Run)
RUN_HOOKS: Final = RecordKind(b"run_hooks/", pb.HookRun)
RUNS_BY_BRANCH: Final = RecordKind(b"runs_by_branch/", pb.RunIndex)
RUNS_BY_COMMIT: Final = RecordKind(b"runs_by_commit/", pb.RunIndex)

WAITING_PARTITION: Final = b"hooks"
WAITING: Final = RecordKind(b"waiting/", pb.WaitingRun, ("repository", "unique_id"))

_TIME_BYTES: Final = 6
_RANDOM_BYTES: Final = 6


def new_run_id(runtime: Runtime) -> RunID:
    """Return an id that nobody else has, and that comes before those of earlier runs."""
    left_ms = (1 << 8 * _TIME_BYTES) - 1 - int(runtime.now() * 1000)
    drawn = left_ms.to_bytes(_TIME_BYTES, "big") + runtime.random_bytes(_RANDOM_BYTES)
    return RunID(base64.b32hexencode(drawn).decode().rstrip("=").lower())


def branch_name(branch: str, run_id: str = "") -> bytes:
    """Return the name of a run in the index of branches; without an id, what they begin with."""
    return f"{branch}\x00{run_id}".encode()


def commit_name(commit_id: str, run_id: str = "") -> bytes:
    """Return the name of a run in the index of commits; without an id, what they begin with."""
    return f"{commit_id}/{run_id}".encode()


def hook_name(run_id: str, hook_run_id: str = "") -> bytes:
    """Return the name of a hook of a run; without its id, what they begin with."""
    return f"{run_id}/{hook_run_id}".encode()
