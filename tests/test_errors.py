"""Programs catch these errors by class and read their kinds: both are part of the interface."""

import importlib
import pickle
import pkgutil

import pytest

import lakebed
from lakebed.base.errors import LakebedError, MissingExtraError, quoted
from lakebed.block import errors as block
from lakebed.engine.errors import MissingFile, UnsortedEntries
from lakebed.kv import errors as kv


def every_error() -> list[type[LakebedError]]:
    for module in pkgutil.walk_packages(lakebed.__path__, "lakebed."):
        if module.name.endswith(".errors"):
            importlib.import_module(module.name)

    def below(root: type[LakebedError]) -> list[type[LakebedError]]:
        return [root] + [error for child in root.__subclasses__() for error in below(child)]

    return below(LakebedError)


def test_every_error_has_a_kind_of_its_own() -> None:
    kinds = [error.kind for error in every_error()]
    assert len(kinds) == len(set(kinds))


def test_the_tree_of_the_store() -> None:
    assert issubclass(kv.KeyNotFound, KeyError)
    assert issubclass(kv.InvalidArgument, ValueError)
    assert issubclass(kv.StoreClosed, ValueError)
    # Whoever handles the three outcomes handles a store that is down or full.
    assert issubclass(kv.StoreFull, kv.StoreUnavailable)
    assert issubclass(kv.StoreUnavailable, kv.OutcomeUnknown)
    assert not issubclass(kv.PredicateFailed, kv.OutcomeUnknown)
    assert str(kv.KeyNotFound(b"p", b"k")) == "key 'k' not found in partition 'p'"


@pytest.mark.parametrize(
    "error",
    [
        kv.KeyNotFound(b"p", b"k"),
        kv.PredicateFailed(b"p", b"k"),
        kv.StoreUnavailable("gone"),
        MissingFile("local://lake/range"),
        UnsortedEntries(b"b", b"a"),
        MissingExtraError("a store", "postgres"),
    ],
    ids=lambda error: error.kind,
)
def test_an_error_survives_the_way_to_another_process(error: LakebedError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        (b"x/a.txt", "'x/a.txt'"),
        ("grün".encode(), "'grün'"),
        (b"two\nlines\x00", "'two\\nlines\\x00'"),
        (b"\xff/a", "'\\xff/a'"),
    ],
)
def test_keys_are_shown_as_text(key: bytes, shown: str) -> None:
    assert quoted(key) == shown
    assert str(kv.KeyNotFound(b"p", key)) == f"key {shown} not found in partition 'p'"


@pytest.mark.parametrize(
    "error",
    [
        kv.OutcomeUnknown("lost on db.internal"),
        kv.StoreUnavailable("db.internal is down"),
        kv.StoreUnreachable("db.internal refuses"),
        kv.StoreFull("/var/lib/db.internal"),
        block.StorageUnavailable("db.internal is down"),
        block.StorageFull("/var/lib/db.internal"),
    ],
    ids=lambda error: error.kind,
)
def test_strangers_are_not_told_hosts_and_folders(error: LakebedError) -> None:
    assert error.public_message
    assert "db.internal" not in error.public_message
