"""What a deleted repository has left goes when somebody asks for it, and not before its time."""

from datetime import timedelta

import pytest

from lakebed.block import Address, Namespace
from lakebed.catalog.errors import NothingLeft
from lakebed.engine.errors import NamespaceTaken
from lakebed.engine.model import RepositoryID
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


def test_nothing_goes_before_its_time(lake: Lake) -> None:
    namespace, purges = left(lake), lake.catalog.repository_purges
    before = everything(lake, namespace)
    (found,) = purges.request(REPOSITORY)
    wait = lake.settings.min_age_seconds + lake.settings.skew_seconds
    assert found.requested is not None
    assert abs(found.due - found.requested - timedelta(seconds=wait)) < timedelta(minutes=1)
    assert purges.run_due() == 0
    assert everything(lake, namespace) == before


def test_nothing_goes_that_nobody_asked_for(lake: Lake) -> None:
    namespace, purges = left(lake), lake.catalog.repository_purges
    before = everything(lake, namespace)
    a_day_later(lake)
    assert purges.run_due() == 0
    (found,) = purges.left_by(REPOSITORY)
    assert found.requested is None
    assert everything(lake, namespace) == before


def test_all_that_was_its_own_goes_and_all_else_stays(lake: Lake) -> None:
    namespace, purges = left(lake), lake.catalog.repository_purges
    lake.block.put(namespace.address("_lakebed/purges/p/f.parquet"), [b"who was forgotten"])
    purges.request(REPOSITORY)
    a_day_later(lake)
    assert purges.run_due() > 1
    assert everything(lake, namespace) == {
        "notes.txt", "repos/readme", "_lakebed/purges/p/f.parquet",
    }  # fmt: skip
    assert purges.run_due() == 0
    assert list(lake.engine.repositories.list()) == []
    # The place is free again.
    lake.engine.repositories.create(REPOSITORY, namespace, committer="ann")


def test_a_namespace_that_has_another_repository_is_left_alone(lake: Lake) -> None:
    """Somebody restores into it, perhaps."""
    namespace, purges = left(lake), lake.catalog.repository_purges
    purges.request(REPOSITORY)
    lake.engine.repositories.create_bare("another", namespace)
    a_day_later(lake)
    before = everything(lake, namespace)
    assert purges.run_due() == 0
    assert everything(lake, namespace) == before


def test_nobody_gets_the_namespace_while_it_is_purged(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace, purges = left(lake), lake.catalog.repository_purges
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
    namespace, purges = left(lake), lake.catalog.repository_purges
    purges.request(REPOSITORY)
    a_day_later(lake)

    def die(_self: object, _addresses: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(lake.block), "delete_many", die)
        with pytest.raises(KeyboardInterrupt):
            purges.run_due()
    assert purges.run_due() > 0
    assert everything(lake, namespace) == {"notes.txt", "repos/readme"}


def test_a_repository_that_lives_or_never_was_has_left_nothing(lake: Lake) -> None:
    for name in (REPOSITORY, RepositoryID("never")):
        with pytest.raises(NothingLeft, match="has left anything"):
            lake.catalog.repository_purges.request(name)
