"""Scenarios of the engine: actors of every kind on one repository, under every fault.

In strict mixes every value can be told; where heads move and resets bring values back, less can be
said of each key, and the rule of publishing says it instead.
"""

from dataclasses import replace

from lakebed.testing.simulation.simulator import Faults
from tests.simulation.play import Mix, scenarios

FAULTY = Faults(
    fail_before=0.01,
    fail_after=0.02,
    kill=0.002,
    stall=0.005,
    stall_seconds=400,
    skew_seconds=200,
    until_step=4000,
)
CALM = Faults(skew_seconds=200)
# Replies that hang for a while, in processes with many tasks: what reads may be shared shows.
SLOW_REPLIES = Faults(stall=0.3, stall_seconds=0.6)
# Calls that hang for so long that the Cleaner's grace period passes during operations.
LONG_STALLS = Faults(stall=0.03, stall_seconds=2000, kill=0.002, skew_seconds=200, until_step=4000)

WRITES = {"put": 6, "delete": 2, "read": 4, "list_all": 1, "commit": 4}
CONDITIONAL = {
    "create": 8, "replace": 2, "remove": 2, "read": 3, "list_all": 1, "commit": 4, "put": 1,
    "delete": 1,
}  # fmt: skip
# Conditional writes beside everything that moves the branch under them.
CONFIRMED = {
    "create": 8, "replace": 3, "remove": 4, "read": 6, "list_all": 2, "commit": 4, "merge": 4,
    "reset_key": 1, "reset_prefix": 1, "reset": 1,
}  # fmt: skip
UPLOADS = {"upload": 8, "delete": 1, "read": 3, "list_all": 2, "commit": 4, "recreate": 1}
CREATES = {"create": 6, "commit": 4, "read": 2}
# Branches on which most is deleted, and listings leave notes of that.
EMPTIED = {
    "put": 4, "create": 3, "delete": 9, "remove": 1, "list_all": 10, "commit": 1, "reset_key": 1,
}  # fmt: skip
RECREATED = {"put": 6, "read": 4, "commit": 3, "recreate": 2}
EVERYTHING = {
    "put": 6, "create": 4, "replace": 2, "remove": 2, "delete": 2, "read": 4, "list_all": 2,
    "commit": 5, "merge": 2, "revert": 1, "cherry_pick": 1, "reset": 1, "reset_key": 1,
    "reset_prefix": 1, "hard_reset": 1, "recreate": 1,
}  # fmt: skip

# Heads and tokens that move while others are about to write, commit or reset.
MOVING = {
    "put": 5, "create": 4, "commit": 5, "reset": 3, "reset_key": 4, "reset_prefix": 2, "merge": 4,
}  # fmt: skip

# Branches and tags that are made under the same few names, and deleted.
NAMES = {"make_branch": 6, "make_tag": 6, "free_branch": 2, "free_tag": 2, "find_name": 4}

MIXES = {
    "writes": Mix(requests=WRITES, faults=FAULTY),
    "writes_calm": Mix(requests=WRITES, faults=CALM),
    "shared_reads": Mix(
        requests={"put": 3, "delete": 6, "commit": 5},
        faults=SLOW_REPLIES,
        processes=(2, 2),
        tasks=4,
    ),
    "conditional": Mix(requests=CONDITIONAL, faults=FAULTY),
    "conditional_calm": Mix(requests=CONDITIONAL, faults=CALM),
    "confirmed": Mix(requests=CONFIRMED, faults=FAULTY),
    "confirmed_slow": Mix(requests=CONFIRMED, faults=SLOW_REPLIES),
    "creates_slow": Mix(requests={**CREATES, "read": 1}, faults=SLOW_REPLIES, processes=(3, 4)),
    "confirmed_lost": Mix(requests=CONFIRMED, faults=replace(FAULTY, fail_after=0.1), retrying=0.2),
    "uploads": Mix(requests=UPLOADS, faults=FAULTY, processes=(3, 4)),
    "creates_only": Mix(requests=CREATES, faults=FAULTY),
    "emptied": Mix(requests=EMPTIED, faults=SLOW_REPLIES, processes=(2, 2), each=16),
    "emptied_faulty": Mix(requests=EMPTIED, faults=FAULTY, processes=(2, 2), each=16),
    "recreated": Mix(requests=RECREATED, faults=FAULTY),
    "moving": Mix(requests=MOVING, faults=FAULTY, retrying=0.3),
    "names": Mix(requests=NAMES, faults=replace(FAULTY, kill=0.01), processes=(2, 3), retrying=0.7),
    "names_slow": Mix(requests=NAMES, faults=SLOW_REPLIES, processes=(3, 3), tasks=1, each=8),
    "cleaned": Mix(requests={**WRITES, "list_all": 2}, faults=LONG_STALLS, cleaners=1),
    "everything": Mix(requests=EVERYTHING, faults=FAULTY, cleaners=1),
}

SCENARIOS = scenarios(MIXES)
