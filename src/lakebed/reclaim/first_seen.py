"""When this process first saw a record: the only age that the Cleaner goes by."""

from dataclasses import dataclass

from lakebed.kv import Version
from lakebed.runtime import Runtime


@dataclass(slots=True)
class _Sighting:
    first_seconds: float
    empty_scans: int = 0
    fresh: bool = True
    """Whether it was seen since the last `FirstSeen.forget_the_rest`."""


class FirstSeen:
    """Remembers records by their versions: one that was written again counts as another one."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._first_seen: dict[Version, _Sighting] = {}

    def seconds(self, version: Version) -> float:
        """How long ago this process first saw a record; 0 if it sees it now."""
        now = self._runtime.monotonic()
        sighting = self._first_seen.setdefault(version, _Sighting(now))
        sighting.fresh = True
        return now - sighting.first_seconds

    def note_scan(self, version: Version, *, found: int) -> int:
        """Count the scans in a row that found nothing behind a record that was seen before."""
        sighting = self._first_seen[version]
        sighting.empty_scans = 0 if found else sighting.empty_scans + 1
        return sighting.empty_scans

    def forget(self, version: Version) -> None:
        """Forget a record: when it is seen next, that is the first time."""
        self._first_seen.pop(version, None)

    def forget_the_rest(self) -> None:
        """Forget what was not seen since this was called last."""
        kept = {version: seen for version, seen in self._first_seen.items() if seen.fresh}
        for sighting in kept.values():
            sighting.fresh = False
        self._first_seen = kept
