"""Removing the records of what has expired: links, multipart uploads, tasks, imports, pins.

Merges of pull requests whose process died are brought to an end here, too.

The Cleaner of the engine leaves them alone while their repository lives. (When it is deleted, the
Cleaner removes its whole partition.) Each record says itself when it expires, but for
pins, which end with their objects (see `pins`). So this may run anywhere, at any time, and several
times at once.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from lakebed.base.runtime import Runtime
from lakebed.engine.model import Repository
from lakebed.kv import CorruptRecord, OutcomeUnknown, StoreUnavailable
from lakebed.lake.catalog import Catalog
from lakebed.lake.settings import CatalogSettings

PAUSE_SECONDS: Final = 0.05
"""Between two repositories, to let others work."""


_LOGGER: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class ExpiredCounts:
    """What a pass removed."""

    repositories: int = 0
    """How many it went through."""
    links: int = 0
    multiparts: int = 0
    tasks: int = 0
    imports: int = 0
    pins: int = 0
    pulls: int = 0
    """Merges of pull requests that were cut off, and are brought to an end now."""
    uncertain: int = 0
    """Kinds of records of a repository that were cut off: the store gave no certain answer, or a
    record is damaged. The next pass looks again."""


def clean_expired(
    catalog: Catalog, runtime: Runtime, times: CatalogSettings | None = None
) -> ExpiredCounts:
    """Go through all repositories once, and remove what has expired.

    Args:
        catalog: It has the records.
        runtime: Clock and pauses.
        times: When records expire; None: by the settings of the catalog.

    Raises:
        StoreUnavailable: The store did not answer; the next pass goes on.
    """
    counts = ExpiredCounts()
    kinds: dict[str, Callable[[Repository], int]] = {
        "links": partial(catalog.links.clean, times=times),
        "multiparts": partial(catalog.multiparts.clean, times=times),
        "tasks": partial(catalog.tasks.clean, times=times),
        "imports": partial(catalog.imports.clean, times=times),
        "pins": partial(catalog.pins.clean, times=times),
        "pulls": catalog.pulls.clean,
    }
    for repository in catalog.repositories.list_readable():
        counts.repositories += 1
        for kind, clean in kinds.items():
            try:
                setattr(counts, kind, getattr(counts, kind) + clean(repository))
            except StoreUnavailable:
                raise
            except (OutcomeUnknown, CorruptRecord) as error:
                _LOGGER.warning(
                    "%s of repository %s are left alone: %s", kind, repository.id, error
                )
                counts.uncertain += 1
        runtime.sleep(PAUSE_SECONDS)
    return counts
