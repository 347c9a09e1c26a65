"""Proof that the directed tests of the commit protocol bite: each fails with its rule broken."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.engine import test_commit_protocol as directed
from tests.engine.test_commit_protocol import CommitKit
from tests.simulation import engine_mutants as mutants

CAUGHT: list[tuple[mutants.Plant, Callable[[CommitKit], None]]] = [
    (
        mutants.infer_success_from_absence,
        directed.test_changes_discarded_in_the_middle_are_not_reported_as_committed,
    ),
    (
        mutants.edit_a_sealed_token,
        directed.test_a_reset_of_a_key_in_the_middle_outlives_the_commit,
    ),
    (
        mutants.take_a_lost_reply_for_failure,
        directed.test_a_lost_reply_to_the_publishing_swap_is_a_success,
    ),
    (
        mutants.take_a_lost_reply_for_failure,
        directed.test_a_lost_reply_to_an_empty_commit_does_not_make_two,
    ),
    (
        mutants.reset_to_a_stale_head,
        directed.test_a_reset_of_a_key_follows_a_head_that_moves_under_the_same_token,
    ),
    (
        mutants.compare_tokens_only,
        directed.test_a_reset_of_a_key_follows_a_head_that_moves_under_the_same_token,
    ),
    (
        mutants.compare_tokens_only,
        directed.test_a_conditional_create_sees_a_merge_under_the_same_token,
    ),
    (
        mutants.acknowledge_own_entry,
        directed.test_a_conditional_create_that_a_commit_under_way_missed_is_written_again,
    ),
    (
        mutants.publish_a_stale_build,
        partial(directed.test_a_hook_sees_every_content_that_is_offered, late=True),
    ),
    (
        mutants.commit_what_others_sealed,
        directed.test_commits_refused_by_a_hook_leave_a_branch_that_works,
    ),
]


@pytest.mark.parametrize(("plant", "scenario"), CAUGHT)
def test_a_broken_rule_is_found_out(
    plant: mutants.Plant, scenario: Callable[[CommitKit], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario(CommitKit())  # as it is, it holds
    plant(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        scenario(CommitKit())
