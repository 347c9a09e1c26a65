"""The age of objects: the rule that keeps writers and garbage collection out of each other's way.

Garbage collection leaves objects alone that are younger than `min_age_seconds`. A writer stages an
object only while it is younger than half of that, and checks the age again before it acknowledges.
So if a collection has not seen the entry, the object was too young for it when it set its cutoff.
"""

from lakebed.catalog.settings import CatalogSettings
from lakebed.engine.staging.writer import IsFresh
from lakebed.formats.object_paths import ObjectPath
from lakebed.runtime import Runtime


class Freshness:
    """Judges the age of objects by the clock of this process."""

    def __init__(self, runtime: Runtime, settings: CatalogSettings) -> None:
        self._runtime = runtime
        self._hold_seconds = settings.longest_hold_seconds
        self._window_seconds = settings.copy_window_seconds
        self._url_seconds = settings.presign_life_seconds + settings.skew_seconds

    def test(self, address: ObjectPath) -> IsFresh:
        """Return a test of whether an object may still be staged."""
        return lambda: self._age(address) < self._hold_seconds

    def may_share(self, address: ObjectPath) -> bool:
        """Whether an object is so young that a copy may use its address."""
        return self._age(address) < self._window_seconds

    def is_settled(self, address: ObjectPath) -> bool:
        """Whether an object is so old that no URL to write it works any more."""
        return self._age(address) > self._url_seconds

    def _age(self, address: ObjectPath) -> float:
        return self._runtime.now() - address.issued_us / 1e6
