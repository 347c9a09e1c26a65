"""Removal of expired records: links, multipart uploads, tasks, imports, pins.

Merges of pull requests whose process died are finished here, too.

The Cleaner deletes these records only with their whole repository. Each record has an expiry time,
except pins, which end with their objects (see `etag_pins`). So this may run anywhere, at any time,
and several times at once.
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
"""Pause between two repositories, to yield to other threads."""


_LOGGER: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class ExpiredCounts:
    """Counts of one pass."""

    repositories: int = 0
    """Repositories scanned."""
    links: int = 0
    multiparts: int = 0
    tasks: int = 0
    imports: int = 0
    pins: int = 0
    pulls: int = 0
    """Interrupted merges of pull requests that were finished."""
    uncertain: int = 0
    """Kinds of records in a repository that were skipped, because of an unknown outcome or a
    damaged record. The next pass retries them."""


def clean_expired(
    catalog: Catalog, runtime: Runtime, times: CatalogSettings | None = None
) -> ExpiredCounts:
    """Remove the expired records of all repositories, by `times` or the catalog's settings.

    Raises:
        StoreUnavailable: The store did not answer; the next pass continues.
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
                _LOGGER.warning("skipped the %s of repository %s: %s", kind, repository.id, error)
                counts.uncertain += 1
        runtime.sleep(PAUSE_SECONDS)
    return counts
