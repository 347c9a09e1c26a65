"""Drivers of other packages, registered as entry points.

The name of an entry point is a scheme of URLs, its value a module with a function `open_driver`.
"""

from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

from lakebed.base.errors import BrokenDriver


def is_registered(group: str, scheme: str) -> bool:
    """Return whether an installed package registers a driver."""
    return scheme in _registered(group)


def find_driver(group: str, scheme: str) -> ModuleType | None:
    """Return the module of a driver, or None if no installed package registers it.

    Raises:
        BrokenDriver: Several packages register it, or its module cannot be imported.
    """
    found = _registered(group).get(scheme, [])
    if not found:
        return None
    packages = " and ".join(sorted({str(each.dist and each.dist.name) for each in found}))
    if len(found) > 1:
        raise BrokenDriver(f"{packages} register a driver for {scheme}://: uninstall all but one")
    try:
        module = found[0].load()
    except (ImportError, AttributeError) as error:
        raise BrokenDriver(
            f"cannot import the driver for {scheme}:// of the package {packages}: {error}"
        ) from error
    if not callable(getattr(module, "open_driver", None)):
        raise BrokenDriver(
            f"the driver for {scheme}:// of the package {packages} has no function open_driver:"
            f" {found[0].value} must be a module with it"
        )
    assert isinstance(module, ModuleType)
    return module


@cache
def _registered(group: str) -> Mapping[str, list[EntryPoint]]:
    found: dict[str, list[EntryPoint]] = defaultdict(list)
    for each in entry_points(group=group):
        found[each.name].append(each)
    return dict(found)
