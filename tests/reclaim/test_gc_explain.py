"""Why an object or a commit is kept, or went: each reason in words."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.block import Address, LocalSettings, open_block
from lakebed.engine.errors import CommitExpired
from lakebed.engine.model import BranchID
from lakebed.kv import open_store
from lakebed.reclaim.explain import Explanation
from lakebed.reclaim.references import PurgeQuery
from lakebed.reclaim.retention import BranchRule, RetentionRules
from tests.kit.lake import DEV, MAIN, REPOSITORY
from tests.spark.lakes import GCLake, gc_lake

DAY = 24.0


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[GCLake]:
    settings = LocalSettings(tmp_path / "objects")
    with open_store("memory://") as store, open_block(settings) as block:
        yield gc_lake(store, block, settings, None, namespace="local://lake/data")


def of_commit(lake: GCLake, ref: str) -> Explanation:
    return lake.lake.reclaim.explanations.commit(REPOSITORY, ref)


def of_object(lake: GCLake, ref: str, path: str) -> Explanation:
    return lake.lake.reclaim.explanations.object(REPOSITORY, ref, path.encode())


def of_address(lake: GCLake, address: str) -> Explanation:
    return lake.lake.reclaim.explanations.address(REPOSITORY, Address.parse(address))


def says(found: Explanation, verdict: str, *parts: str) -> None:
    text = "\n".join(found.reasons)
    assert found.verdict == verdict, text
    for part in parts:
        assert part in text


def test_an_address_without_an_object(lake: GCLake) -> None:
    for address in ("local://lake/data/none", "local://elsewhere/none"):
        found = of_address(lake, address)
        assert (found.verdict, found.reasons[0]) == (
            "gone",
            "The storage does not contain the object.",
        )


def test_commits(lake: GCLake) -> None:
    catalog = lake.lake.catalog
    lake.upload("a")
    first = lake.commit()
    says(of_commit(lake, first), "kept", "no retention rules")
    lake.delete("a")
    lake.upload("b")
    second = lake.commit()
    lake.upload("c")
    lake.commit()
    catalog.ref_changes.create_tag(REPOSITORY, "v1", second)
    rules = RetentionRules(2, [BranchRule("main", 5)])
    lake.lake.reclaim.retention.set_rules(REPOSITORY, rules)
    says(of_commit(lake, first), "kept", "less than a day ago", "on branch main", "5 days")
    lake.later(7 * DAY)
    says(of_commit(lake, "main"), "kept", "the head of branch main")
    says(of_commit(lake, "v1"), "kept", "Tag v1 points to it")
    says(of_commit(lake, first), "going", "the next run marks it", "86400 seconds")
    lake.run()
    says(of_commit(lake, first), "going", "It was marked on", "expires with the first run after")
    lake.lake.reclaim.retention.set_rules(REPOSITORY, RetentionRules(90))
    says(of_commit(lake, first), "kept", "on branch main")
    lake.lake.reclaim.retention.set_rules(REPOSITORY, rules)
    lake.run()
    lake.later(25)
    lake.run()
    says(of_commit(lake, first), "gone", "It expired permanently on")


def test_a_commit_that_no_branch_leads_to(lake: GCLake) -> None:
    lake.lake.reclaim.retention.set_rules(REPOSITORY, RetentionRules(4))
    work = BranchID("work")
    lake.lake.engine.refs.create_branch(REPOSITORY, work, MAIN)
    lake.upload("a", branch=work)
    gone = lake.commit(work)
    lake.lake.engine.refs.delete_branch(REPOSITORY, work)
    lake.later(2 * DAY)
    says(of_commit(lake, gone), "kept", "on no branch", "4 days")


def test_an_object_from_its_upload_to_its_end(lake: GCLake) -> None:
    address = lake.upload("a", "1")
    says(of_object(lake, "main", "a"), "kept", "staged on branch main as 'a'")
    first = lake.commit()
    says(
        of_object(lake, "main", "a"),
        "kept",
        f"Commit {first} references it as 'a'",
        "no retention rules",
    )
    lake.delete("a")
    lake.upload("b")
    lake.commit()
    says(of_address(lake, address), "kept", f"Commit {first} references it")
    lake.lake.reclaim.retention.set_rules(REPOSITORY, RetentionRules(1))
    lake.later(2 * DAY)
    says(of_address(lake, address), "kept", "No kept commit references it", "the next run marks")
    lake.run()
    lake.later(25)
    lake.run()
    says(
        of_object(lake, first, "a"),
        "going",
        "It expired permanently on",
        "a run found it on",
        "deletes it",
    )
    lake.later()
    lake.run()
    gone = of_object(lake, first, "a")
    says(
        gone,
        "gone",
        "does not contain",
        "run ",
        "deleted it",
        f"Commit {first}",
        "It expired permanently on",
    )


def test_the_record_of_a_refused_commit_keeps_nothing(lake: GCLake) -> None:
    catalog = lake.lake.catalog
    lake.lake.reclaim.retention.set_rules(REPOSITORY, RetentionRules(2))
    address = lake.upload("a", "1")
    old = lake.commit()
    lake.delete("a")
    lake.commit()
    lake.later(7 * DAY)
    lake.upload("b")
    lake.commit()
    lake.later(7 * DAY)
    for _ in range(5):
        lake.later(1.1 * DAY)
        lake.run()
    assert address not in lake.stored()
    with pytest.raises(CommitExpired):
        catalog.commits.cherry_pick(REPOSITORY, DEV, old, committer="ann")
    found = of_address(lake, address)
    says(
        found, "gone", f"Commit {old} references it as 'a'", "deleted it", "expired permanently on"
    )
    assert "it stays" not in "\n".join(found.reasons)


def test_the_record_of_a_refused_commit_keeps_what_is_there(lake: GCLake) -> None:
    catalog = lake.lake.catalog
    lake.lake.reclaim.retention.set_rules(REPOSITORY, RetentionRules(2))
    address = lake.upload("a", "1")
    old = lake.commit()
    lake.delete("a")
    lake.commit()
    for days in (7, 1.1):
        lake.upload("b", str(days))
        lake.commit()
        lake.later(days * DAY)
        lake.lake.reclaim.retention.expire(REPOSITORY, max_share=1.0)
    lake.later(1.1 * DAY)
    lake.lake.reclaim.retention.expire(REPOSITORY, max_share=1.0)
    with pytest.raises(CommitExpired):
        catalog.commits.cherry_pick(REPOSITORY, DEV, old, committer="ann")
    says(
        of_address(lake, address),
        "kept",
        f"That commit was refused: its source commit {old} had expired",
    )


def test_explain_unreferenced_objects(lake: GCLake) -> None:
    address = lake.upload("a", "1")
    lake.upload("a", "2")
    says(of_address(lake, address), "kept", "staged write to 'a' on branch main replaced it")
    lake.delete("a")
    lake.upload("a", "3")
    says(of_address(lake, address), "going", "unreferenced, but too recent")
    lake.later(9 * DAY)
    says(of_address(lake, address), "going", "the next run finds it", "3600 seconds later")
    lake.run()
    says(of_address(lake, address), "going", "a run found it on", "begins after")
    lake.lake.block.delete(Address.parse(address))
    says(of_address(lake, address), "gone", "No stored report lists it")


def test_explain_objects_of_uploads(lake: GCLake) -> None:
    catalog, block = lake.lake.catalog, lake.lake.block
    given = catalog.links.get_physical_address(REPOSITORY, MAIN, b"linked")
    block.put(given.address, [b"1"])
    says(of_address(lake, str(given.address)), "kept", "issued for 'linked' on branch main")
    catalog.links.link(REPOSITORY, MAIN, b"linked", given.address, checksum="c")
    says(of_address(lake, str(given.address)), "kept", "staged on branch main as 'linked'")
    upload = catalog.multiparts.create(REPOSITORY, MAIN, b"parts")
    (open_one,) = lake.lake.reclaim.unfinished.list(REPOSITORY)
    assert open_one.id == upload.id
    block.put(open_one.address, [b"1"])
    says(of_address(lake, str(open_one.address)), "kept", "multipart upload to 'parts'")


def test_foreign_paths_are_not_issued(lake: GCLake) -> None:
    foreign = ["local://elsewhere/a", "local://lake/data/mine"]
    for address in foreign:
        lake.lake.block.put(Address.parse(address), [b"1"])
        says(of_address(lake, address), "kept", "never delete it", "imported")
    own = lake.upload("a")
    other = own.replace(lake.lake.repository.unique_id, "ab" * 10)
    lake.lake.block.put(Address.parse(other), [b"1"])
    says(of_address(lake, other), "kept", f"unique id {'ab' * 10}", "an earlier repository")


def test_explain_purged_objects(lake: GCLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(lake.lake.clock), "sleep", lambda *_args: None)
    address = lake.upload("a")
    lake.commit()
    lake.lake.reclaim.purges.purge(
        REPOSITORY, PurgeQuery("path", b"a"), reason="asked for", username="ann"
    )
    found = of_address(lake, address)
    says(found, "gone", "It was purged on", "asked for", "references it as 'a'")
    assert "Of that commit" not in "\n".join(found.reasons), "as if it kept the object"
