"""Records of hooks.

| partition of the repository             | value                                           |
|-----------------------------------------|-------------------------------------------------|
| runs/<run id>                           | runs, newest first: later ids sort first        |
| run_hooks/<run id>/<hook run id>        | the hooks of a run                              |
| runs_by_branch/<branch><NUL><run id>    | runs by branch, written before the run          |
| runs_by_commit/<commit id>/<run id>     | runs by commit, written before the run          |

Runs of post events that have not ended are also in partition ``hooks``, as ``waiting/<run id>``:
`PostRunner` need not scan all repositories.
"""

import base64
from typing import Final, NewType

from lakebed.base.runtime import Runtime
from lakebed.kv.records import RecordKind
from lakebed.lake.hooks import records_pb2 as pb

RunID = NewType("RunID", str)
"""Id of a run, unique within its repository: 20 characters; later ids sort first."""

RUNS: Final = RecordKind(b"runs/", pb.Run)
RUN_HOOKS: Final = RecordKind(b"run_hooks/", pb.HookRun)
RUNS_BY_BRANCH: Final = RecordKind(b"runs_by_branch/", pb.RunIndex)
RUNS_BY_COMMIT: Final = RecordKind(b"runs_by_commit/", pb.RunIndex)

WAITING_PARTITION: Final = b"hooks"
WAITING: Final = RecordKind(b"waiting/", pb.WaitingRun, ("repository", "unique_id"))

_TIME_BYTES: Final = 6
_RANDOM_BYTES: Final = 6


def new_run_id(runtime: Runtime) -> RunID:
    """Return a unique id that sorts before the ids of earlier runs."""
    left_ms = (1 << 8 * _TIME_BYTES) - 1 - int(runtime.now() * 1000)
    drawn = left_ms.to_bytes(_TIME_BYTES, "big") + runtime.random_bytes(_RANDOM_BYTES)
    return RunID(base64.b32hexencode(drawn).decode().rstrip("=").lower())


def branch_name(branch: str, run_id: str = "") -> bytes:
    """Return the key of a run in the index of branches, or without an id, the keys' prefix."""
    return f"{branch}\x00{run_id}".encode()


def commit_name(commit_id: str, run_id: str = "") -> bytes:
    """Return the key of a run in the index of commits, or without an id, the keys' prefix."""
    return f"{commit_id}/{run_id}".encode()


def hook_name(run_id: str, hook_run_id: str = "") -> bytes:
    """Return the key of a hook of a run, or without an id, the keys' prefix."""
    return f"{run_id}/{hook_run_id}".encode()
