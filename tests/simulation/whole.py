"""The whole engine at once: entries, branches, repositories, dumps and the Cleaner.

Writers, readers and committers work on repositories that are deleted and made again meanwhile, in
the same namespaces, while dumps are taken and Cleaners run.
"""

from dataclasses import replace

from tests.simulation import engine
from tests.simulation.play import Mix, scenarios
from tests.simulation.world import Parts

FAULTY = replace(engine.FAULTY, stall=0.01)

ALL = Mix(
    requests={
        "put": 10, "create": 5, "delete": 2, "read": 5, "list_all": 3, "commit": 16, "merge": 8,
        "revert": 4, "cherry_pick": 2, "reset": 2, "reset_key": 2, "reset_prefix": 2,
        "hard_reset": 4, "recreate": 1, "fork": 2, "tag": 1, "dump": 2,
        "recreate_repository": 2, "create_repository": 3, "delete_repository": 1,
        "get_repository": 1, "list_repositories": 1,
    },
    names=("apples",),
    namespaces=("a", "b"),
    begin_with=1,
    commits_before=1,
    processes=(2, 3),
    tasks=2,
    each=6,
    cleaners=1,
    passes=5,
    retrying=0.8,
    faults=FAULTY,
)  # fmt: skip

# Requests that hang until others have made the repository again, and the Cleaner has been there
# (some leave strays); clocks that make others' creations look old.
SLEEPERS = replace(
    ALL, passes=10, faults=replace(FAULTY, stall=0.02, stall_seconds=4000, skew_seconds=4000)
)

# Slow dumps.
DUMPS = replace(
    ALL,
    requests={
        "put": 4, "commit": 8, "merge": 3, "hard_reset": 2, "fork": 2, "tag": 4, "dump": 8,
        "recreate_repository": 3, "delete_repository": 1,
    },
    faults=replace(FAULTY, stall=0.05),
)  # fmt: skip

MIXES = {"all": ALL, "sleepers": SLEEPERS, "dumps": DUMPS}

# The model of committed entries is several times as fast as real files; some runs use those.
SCENARIOS = scenarios(MIXES, lambda seed: Parts(real_files=seed % 16 == 0))
SHARES = {"all": 4, "sleepers": 2}
