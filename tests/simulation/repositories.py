"""Scenarios of repositories and the Cleaner: names and namespaces that collide, all the time.

`SCENARIOS` holds the real code, `BROKEN` the same with one rule broken each.
"""

from dataclasses import replace
from functools import partial

from lakebed.testing.simulation.simulator import Faults
from tests.simulation import repository_mutants as mutants
from tests.simulation.play import Mix, scenarios
from tests.simulation.world import Parts

UNCERTAIN = Faults(
    fail_before=0.02,
    fail_after=0.04,
    kill=0.003,
    stall=0.012,
    stall_seconds=300,
    skew_seconds=100,
)

repositories = partial(
    Mix,
    begin_with=0,
    processes=(4, 4),
    tasks=1,
    each=5,
    cleaners=2,
    pause_seconds=200,
    retrying=0.7,
)

NAMES = repositories(
    requests={"create_repository": 4, "delete_repository": 3, "get_repository": 1},
    names=("apples",),
    namespaces=("a", "b"),
    faults=replace(UNCERTAIN, stall=0.03),
)
# Processes that wake up after others have taken their places (most leave strays), and whose clocks
# make others' creations look old.
SLEEPERS = repositories(
    requests={"create_repository": 4, "delete_repository": 3},
    names=("apples",),
    namespaces=("a",),
    faults=replace(UNCERTAIN, stall=0.06, stall_seconds=800, skew_seconds=4000),
)
PLACES = repositories(
    requests={
        "create_repository": 5, "delete_repository": 2, "get_repository": 1,
        "list_repositories": 1, "put": 1,
    },
    names=("apples", "berries", "cherries"),
    namespaces=("a", "a/b", "a/b/c", "d"),
    faults=UNCERTAIN,
)  # fmt: skip
TOKENS = repositories(
    requests={
        "create_repository": 2, "delete_repository": 1, "put": 4, "read": 3, "reset": 2,
        "commit": 1, "fork": 1, "recreate": 1,
    },
    names=("apples", "berries"),
    namespaces=("a", "b"),
    begin_with=2,
    faults=replace(UNCERTAIN, stall=0.03),
)  # fmt: skip

MIXES = {"names": NAMES, "sleepers": SLEEPERS, "places": PLACES, "tokens": TOKENS}

SCENARIOS = scenarios(MIXES)

BROKEN = {
    "claim_before_record": (PLACES, Parts(repositories=mutants.ClaimsBeforeRecord)),
    "look_before_claiming": (PLACES, Parts(break_rule=mutants.look_before_claiming)),
    "delete_record_blindly": (SLEEPERS, Parts(break_rule=mutants.delete_record_blindly)),
    "delete_claim_blindly": (PLACES, Parts(break_rule=mutants.delete_claim_blindly)),
    "activate_blindly": (SLEEPERS, Parts(repositories=mutants.ActivatesBlindly)),
    "write_owner_blindly": (SLEEPERS, Parts(break_rule=mutants.write_owner_blindly)),
    "drop_named_tokens": (TOKENS, Parts(cleaner=mutants.DropsNamedTokens)),
    "drop_branches_unannounced": (TOKENS, Parts(cleaner=mutants.DropsBranchesUnannounced)),
    "no_grace": (TOKENS, Parts(grace_seconds=0.0)),
    "no_second_scan": (TOKENS, Parts(cleaner=mutants.ScansOnce)),
    "leave_tombstones": (TOKENS, Parts(break_rule=mutants.leave_tombstones)),
}
