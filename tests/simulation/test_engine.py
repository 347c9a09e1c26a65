"""The engine under simulation, and proof that the checker bites: rules broken one at a time."""

from collections import Counter

import pytest

from lakebed.testing.simulation.explore import first_failure
from tests.kit.rounds import rounds
from tests.simulation import engine_mutants as mutants
from tests.simulation.checks import check_quiet
from tests.simulation.engine import MIXES, SCENARIOS
from tests.simulation.kills import KillsAt
from tests.simulation.play import begin, play
from tests.simulation.world import MAIN, Body, Parts, Process, World

# In portions, which can run beside each other.
PORTION = rounds(25, long=1_500, fast=4)

# Of some broken rules, one seed in hundreds tells: where to begin, so as not to look for long.
RARELY_FOUND: dict[mutants.Plant, int] = {
    mutants.join_a_read_under_way: 300,
    mutants.note_without_seeking: 2050,
}


@pytest.mark.parametrize("portion", range(2))
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_seed_passes(name: str, portion: int) -> None:
    seeds = range(portion * PORTION, (portion + 1) * PORTION)
    assert first_failure(f"tests.simulation.engine:{name}", seeds) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "scenario"),
    [
        (mutants.no_second_read, "writes"),
        (mutants.no_second_look, "conditional"),
        (mutants.compare_tokens_only, "moving"),
        (mutants.scans_pass_over, "conditional"),
        (mutants.readers_pass_over, "confirmed_slow"),
        (mutants.writers_pass_over, "creates_slow"),
        (mutants.others_confirm, "conditional"),
        (mutants.refuse_after_a_lost_confirmation, "confirmed_lost"),
        (mutants.write_before_looking, "conditional"),
        (mutants.acknowledge_own_entry, "conditional"),
        (mutants.close_cells_of_sealed_tokens, "conditional_calm"),
        (mutants.show_proposals, "conditional"),
        (mutants.publish_proposals, "conditional"),
        (mutants.take_proposals_for_tombstones, "conditional"),
        (mutants.join_a_read_under_way, "shared_reads"),
        (mutants.delete_branch_blindly, "recreated"),
        (mutants.drop_before_publishing, "writes"),
        (mutants.publish_a_stale_build, "writes"),
        (mutants.commit_what_others_sealed, "writes"),
        (mutants.infer_success_from_absence, "moving"),
        (mutants.take_a_lost_reply_for_failure, "moving"),
        (mutants.edit_a_sealed_token, "moving"),
        (mutants.reset_to_a_stale_head, "moving"),
        (mutants.leave_notes_when_writing, "emptied"),
        (mutants.note_without_seeking, "emptied"),
        (mutants.look_at_no_other, "names_slow"),
        (mutants.look_before_announcing, "names_slow"),
        (mutants.leave_the_other_creating, "names_slow"),
        (mutants.end_the_other_blindly, "names_slow"),
        (mutants.finish_blindly, "names_slow"),
        (mutants.write_live_at_first, "names_slow"),
        (mutants.find_tags_being_created, "names_slow"),
    ],
)
def test_a_broken_rule_is_found_out(
    plant: mutants.Plant, scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    begin_at = RARELY_FOUND.get(plant, 0)
    failure = first_failure(f"tests.simulation.engine:{scenario}", range(begin_at, begin_at + 400))
    assert failure is not None
    assert "AssertionError" in failure.error, "found by a check, not by a crash"


# Names of branches and tags


@pytest.mark.slow
def test_races_for_names_are_won_lost_and_left_unfinished() -> None:
    """A scenario in which nobody meets anybody proves nothing."""
    told: Counter[str] = Counter()
    for seed in range(200):
        told += play(seed, MIXES["names"]).told
    assert told.keys() >= {
        "made branches/", "made tags/", "NotUnique", "BranchNotFound", "TagNotFound",
        "OutcomeUnknown", "creating at the end",
    }  # fmt: skip


def make_branch(world: World, process: Process) -> None:
    process.lake.refs.create_branch(world.names[0], "x", MAIN)


def make_tag(world: World, process: Process) -> None:
    process.lake.refs.create_tag(world.names[0], "x", MAIN)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("body", [make_branch, make_tag])
def test_a_death_at_any_step_of_a_creation_leaves_the_name_usable(
    body: Body, *, after: bool
) -> None:
    unfinished = 0
    for at in range(1, 50):
        simulation = KillsAt(at, after=after)
        world = begin(simulation, MIXES["names"], Parts())
        world.run({"victim": [body]})
        check_quiet(world)
        unfinished += world.told["creating at the end"]
        if simulation.calls < at:
            break  # it was over before it could die
    assert unfinished == 2, "one dies after step 1, one after step 2"
