"""The engine under simulation, and proof that the checker bites: rules broken one at a time."""

import pytest

from lakebed.testing.simulation.explore import first_failure
from tests.kit.rounds import rounds
from tests.simulation import engine_mutants as mutants
from tests.simulation.engine import SCENARIOS

# In portions, which can run beside each other.
PORTION = rounds(25, long=1_500, fast=4)


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
        (mutants.compare_nothing, "conditional"),
        (mutants.compare_tokens_only, "moving"),
        (mutants.acknowledge_own_entry, "conditional"),
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
    ],
)
def test_a_broken_rule_is_found_out(
    plant: mutants.Plant, scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    failure = first_failure(f"tests.simulation.engine:{scenario}", range(400))
    assert failure is not None
    assert "AssertionError" in failure.error, "found by a check, not by a crash"
