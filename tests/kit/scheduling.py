"""Which tests run in one worker, one after the other, and in which order they are given out."""

import gc
from typing import Final

import pytest
from _pytest.nodeid import coerce_node_id

_FIRST: Final = ("tests/spark", "tests/system", "tests/compat", "tests/simulation", "tests/engine")
"""Where the long tests are. They begin early, so that no worker ends long after the others."""


def pytest_collection_finish() -> None:
    """Freeze modules and tests: garbage collection would traverse them again and again."""
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the tests, and keep those together that share something slow to start.

    The schedulers of xdist know a group by the end of the node ids. xdist itself sets an attribute
    that pytest no longer reads, so its own mark for groups has no effect.
    """
    if not config.getoption("loadgroup", default=False):
        return
    items.sort(key=_rank)
    for item in items:
        group = _group(item)
        if group is not None:
            item._id = coerce_node_id(f"{item.nodeid}@{group}")


def _rank(item: pytest.Item) -> int:
    return next(
        (rank for rank, folder in enumerate(_FIRST) if item.nodeid.startswith(folder)), len(_FIRST)
    )


def _group(item: pytest.Item) -> str | None:
    """Return what the test shares with others: Spark, a server, or a fixture of its file."""
    if not isinstance(item, pytest.Function):
        return None
    names = set(item.fixturenames)
    # A fixture that is asked for by its name, such as a lake on Spark or without, has a parameter.
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    if "spark" in names or "spark" in parameters:
        return "spark"
    if "lakebed" in names:
        names.add(f"{item.callspec.params['lakebed']}_lakebed")
    for server in ("sqlite_lakebed", "postgresql_lakebed", "gateway_server"):
        if server in names:
            return server
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        if definitions[-1].scope == "module":
            return item.nodeid.partition("::")[0]
    return None
