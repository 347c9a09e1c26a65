"""Which searches for a planted error `make test` leaves to `make test-all`: the longest ones."""

from typing import Final

import pytest

LONG: Final = {
    "test_an_announcement_that_is_removed_under_a_merge",
    "test_digests_of_another_entry_than_the_one_that_is_replaced_show",
    "test_digests_that_are_not_kept_or_not_taken_along_show",
    "test_acknowledging_what_nothing_protected",
    "test_looking_without_touching_the_branch",
    "test_a_purge_that_searches_only_what_was_published",
    "test_a_broken_rule_is_found_out[leave_out_what_is_staged]",
    "test_a_broken_rule_is_found_out[name_without_a_look]",
    "test_a_broken_rule_is_found_out[dump_commits_first-dumps]",
    "test_a_broken_rule_is_found_out[no_second_read-all]",
    "test_a_broken_rule_is_found_out[trust_the_branch-all]",
    "test_a_broken_rule_is_found_out[trust_the_repository-all]",
    "test_a_broken_rule_is_found_out[join_a_read_under_way-shared_reads]",
    "test_a_broken_rule_is_found_out[note_without_seeking-emptied]",
    "test_a_broken_rule_is_found_out[write_owner_blindly]",
    "test_chance_finds_a_broken_rule_too",
}
"""Each takes more than five seconds."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if (
            "simulation" in item.path.parts
            and {item.name, getattr(item, "originalname", "")} & LONG
        ):
            item.add_marker(pytest.mark.extended)
