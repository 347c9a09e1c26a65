"""Whether a content has action files at all."""

from itertools import combinations

import pytest

from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.committed import EntryQuery
from lakebed.lake.commits import HeadChanges
from tests.lake.hooks.run_kit import FOLDER, LAKE, MAIN, HookLake

KEYS = [b"A", b"_lakefs_actions", FOLDER + b"a", FOLDER + b"b/c", b"_lakefs_actions0", b"z"]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_look_into_one_range_says_what_a_listing_says(count: int) -> None:
    lake = HookLake()
    for number, keys in enumerate(combinations(KEYS, count)):
        branch = lake.catalog.ref_changes.create_branch(LAKE, f"b{number}", "dev")
        for key in keys:
            lake.put(key, branch=branch.id)
        # Without hooks: these files are no action files.
        sealed = lake.engine.publisher.seal(lake.repository, branch)
        built = lake.engine.committer._build(lake.repository, sealed, sealed.sealed_tokens)
        metarange_id = built.made.metarange_id
        found = lake.engine.committed(lake.repository).has_below(metarange_id, FOLDER)
        listed = lake.engine.committed(lake.repository).list(
            metarange_id, EntryQuery(prefix=FOLDER)
        )
        assert found == bool(listed.items) == any(key.startswith(FOLDER) for key in keys)


def test_an_empty_content_has_none() -> None:
    lake = HookLake()
    head = lake.engine.resolver.commit(lake.repository, MAIN)
    assert not lake.engine.committed(lake.repository).has_below(head.metarange_id, FOLDER)
    request = CommitRequest(committer="", message="", allow_empty=True)
    assert HeadChanges(lake.engine).commit(LAKE, MAIN, request).commit.parents == (head.id,)
