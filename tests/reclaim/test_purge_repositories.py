"""What a deleted repository has left goes when somebody asks for it, and not before its time."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from lakebed.block import Address, Namespace
from lakebed.engine.errors import NamespaceTaken
from lakebed.engine.model import RepositoryID
from lakebed.lake.errors import NothingLeft
from lakebed.reclaim.repository_purges import RepositoryPurges
from tests.kit.lake import REPOSITORY, Lake


def everything(lake: Lake, namespace: Namespace) -> set[str]:
    batches = lake.block.list_objects(namespace)
    found = (text for batch in batches for text in batch.column("address").to_pylist())
    return {namespace.relative(Address.parse(text)) for text in found}


def left(lake: Lake) -> Namespace:
    """Delete the repository, which has an object and lies beside something else's."""
    namespace = lake.repository.namespace
    lake.upload(b"a", "text")
    lake.block.put(namespace.address("notes.txt"), [b"not ours"])
    lake.block.put(namespace.address("repos/readme"), [b"not ours either"])
    lake.engine.repositories.delete(REPOSITORY)
    return namespace


def a_day_later(lake: Lake) -> None:
    lake.clock.ahead_seconds += lake.settings.min_age_seconds + lake.settings.skew_seconds + 1


def test_nothing_is_purged_before_the_waiting_time(lake: Lake) -> None:
    namespace, purges = left(lake), lake.reclaim.repository_purges
    before = everything(lake, namespace)
    (found,) = purges.request(REPOSITORY)
    wait = lake.settings.min_age_seconds + lake.settings.skew_seconds
    assert found.requested is not None
    assert abs(found.due - found.requested - timedelta(seconds=wait)) < timedelta(minutes=1)
    assert purges.run_due() == 0
    assert everything(lake, namespace) == before


def test_only_requested_repositories_are_purged(lake: Lake) -> None:
    namespace, purges = left(lake), lake.reclaim.repository_purges
    before = everything(lake, namespace)
    a_day_later(lake)
    assert purges.run_due() == 0
    (found,) = purges.left_by(REPOSITORY)
    assert found.requested is None
    assert everything(lake, namespace) == before


def test_all_that_was_its_own_goes_and_all_else_stays(lake: Lake) -> None:
    namespace, purges = left(lake), lake.reclaim.repository_purges
    lake.block.put(namespace.address("_lakebed/purges/p/f.parquet"), [b"who was forgotten"])
    purges.request(REPOSITORY)
    a_day_later(lake)
    assert purges.run_due() > 1
    assert everything(lake, namespace) == {
        "notes.txt", "repos/readme", "_lakebed/purges/p/f.parquet", "_lakebed/owner",
    }  # fmt: skip
    # The place is held until nobody can be about to delete there.
    assert purges.run_due() == 0
    assert [each.id[:8] for each in lake.engine.repositories.list()] == ["purging-"]
    lake.clock.ahead_seconds += lake.settings.longest_request_seconds + lake.settings.skew_seconds
    assert purges.run_due() == 0
    assert list(lake.engine.repositories.list()) == []
    assert purges.run_due() == 0
    # The place is free again.
    lake.engine.repositories.create(REPOSITORY, namespace, committer="ann")


def test_a_namespace_that_has_another_repository_is_left_alone(lake: Lake) -> None:
    """Somebody restores into it, perhaps."""
    namespace, purges = left(lake), lake.reclaim.repository_purges
    purges.request(REPOSITORY)
    lake.engine.repositories.create_bare("another", namespace)
    a_day_later(lake)
    before = everything(lake, namespace)
    assert purges.run_due() == 0
    assert everything(lake, namespace) == before


def test_a_namespace_is_unavailable_while_it_is_purged(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace, purges = left(lake), lake.reclaim.repository_purges
    purges.request(REPOSITORY)
    a_day_later(lake)
    delete_many = type(lake.block).delete_many
    tried: list[bool] = []

    def try_first(self: object, addresses: object) -> object:
        with pytest.raises(NamespaceTaken):
            lake.engine.repositories.create_bare("another", namespace)
        tried.append(True)
        return delete_many(self, addresses)  # type: ignore[arg-type]

    monkeypatch.setattr(type(lake.block), "delete_many", try_first)
    assert purges.run_due() > 0
    assert tried


def test_a_pass_that_dies_is_finished_by_the_next(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace, purges = left(lake), lake.reclaim.repository_purges
    purges.request(REPOSITORY)
    a_day_later(lake)

    def die(_self: object, _addresses: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(lake.block), "delete_many", die)
        with pytest.raises(KeyboardInterrupt):
            purges.run_due()
    assert purges.run_due() > 0
    assert everything(lake, namespace) == {"notes.txt", "repos/readme", "_lakebed/owner"}


def test_a_slow_process_deletes_nothing_of_who_has_the_place_next(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has listed what to delete, and sleeps; another ends the purge, a third makes a lake."""
    namespace, slow = left(lake), lake.reclaim.repository_purges
    slow.request(REPOSITORY)
    a_day_later(lake)
    settings = lake.settings
    quick = RepositoryPurges(lake.engine, lake.store, lake.block, lake.clock, settings)
    listed = RepositoryPurges._left

    def sleep_first(self: RepositoryPurges, place: Namespace) -> Iterator[Address]:
        yield from list(listed(self, place))
        if self is slow:
            quick.run_due()
            quick.run_due()
            lake.clock.ahead_seconds += settings.longest_request_seconds + settings.skew_seconds
            quick.run_due()
            lake.engine.repositories.create(REPOSITORY, namespace, committer="ann")
            lake.upload(b"a", "new")
            yield Address.parse(lake.stored()[0])

    monkeypatch.setattr(RepositoryPurges, "_left", sleep_first)
    slow.run_due()
    assert lake.text("main", b"a") == "new"


def test_a_repository_that_lives_or_never_was_has_left_nothing(lake: Lake) -> None:
    for name in (REPOSITORY, RepositoryID("never")):
        with pytest.raises(NothingLeft, match="has data left to purge"):
            lake.reclaim.repository_purges.request(name)
