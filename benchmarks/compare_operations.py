"""The operations that `benchmarks.compare` measures beside the rates, in seconds for one."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.api import API, FEW, Requests, path_of
from benchmarks.http_load import Load, send, send_each
from benchmarks.large import Large, seconds, use_memory
from lakebed.testing.servers.lakebed import LakebedServer

WRITERS = 12


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much to do."""

    many: int = 100_000
    base: int = 20_000
    some: int = 200
    repeats: int = 10
    branches: int = 320
    large_bytes: int = 256 << 20

    @classmethod
    def tiny(cls) -> "Sizes":
        """Return sizes to see a benchmark run."""
        return cls(many=50, base=20, some=2, repeats=1, branches=16, large_bytes=1 << 20)


class Round:
    """One round of all operations on a server, in new repositories."""

    def __init__(self, server: LakebedServer, number: int, sizes: Sizes) -> None:
        self._server = server
        self._make = Requests(server)
        self._number = number
        self._sizes = sizes

    def measure(self) -> dict[str, float]:
        """Return for each operation how many seconds one takes."""
        return {**self._many(), **self._some_over_many(), **self._branches(), **self._large()}

    def _many(self) -> dict[str, float]:
        """Stage many entries, and commit them."""
        at, count = self._repository("many"), self._sizes.many
        staging = seconds(lambda: self._stage(at, range(count)))
        return {
            "staging by the API": staging / count,
            "commit of many": seconds(lambda: self._commit(at)),
        }

    def _some_over_many(self) -> dict[str, float]:
        """Commit a few changes over many entries."""
        at, sizes = self._repository("base"), self._sizes
        self._stage(at, range(sizes.base))
        self._commit(at)
        times = []
        for repeat in range(sizes.repeats):
            first = sizes.base + repeat * sizes.some
            self._stage(at, range(first, first + sizes.some))
            times.append(seconds(lambda: self._commit(at)))
        return {"commit of some over many": median(times)}

    def _branches(self) -> dict[str, float]:
        """Make branches with a commit by several clients, then merge them by one."""
        at, count = self._repository("small"), self._sizes.branches
        self._stage(at, range(10))
        self._commit(at)

        def steps(numbers: Sequence[int]) -> Iterator[bytes]:
            for number in numbers:
                yield from self._make.branch_with_commit(at, f"b{number}")

        numbers = range(count)
        series = [iter(list(steps(numbers[first::FEW]))) for first in range(FEW)]
        answered(3 * count, send_each(self._server.port, series))
        merges = [
            self._make.rest("POST", f"{at}/refs/b{number}/merge/main", {"message": "m"})
            for number in range(count // 4)
        ]
        merging = answered(len(merges), send_each(self._server.port, [iter(merges)]))
        return {"small merge": merging.seconds / len(merges)}

    def _large(self) -> dict[str, float]:
        """Upload and download one large object."""
        size = self._sizes.large_bytes
        large = Large(self._server, f"large-{self._number}", size)

        def upload() -> float:
            use_memory(2 * size)
            return seconds(large.upload)

        return {
            "upload of a large object": median(upload() for _ in range(3)),
            "download of a large object": median(seconds(large.download) for _ in range(5)),
        }

    def _repository(self, kind: str) -> str:
        """Make a repository; return its address."""
        name = f"{kind}-{self._number}"
        made = {"name": name, "storage_namespace": f"{self._server.namespace}/{name}"}
        self._ask(self._make.rest("POST", API, made))
        return f"{API}/{name}"

    def _stage(self, at: str, numbers: range) -> None:
        """Stage entries of objects that are elsewhere."""
        elsewhere = self._server.namespace.partition("://")[0] + "://elsewhere/data"

        def entry(number: int) -> bytes:
            body = {
                "physical_address": f"{elsewhere}/{number:08}",
                "checksum": f"{number:032x}",
                "size_bytes": number,
            }
            target = f"{at}/branches/main/objects?path={path_of(number)}"
            return self._make.rest("PUT", target, body)

        port, entries = self._server.port, map(entry, numbers)
        answered(len(numbers), send(port, entries, connections=WRITERS, seconds=math.inf))

    def _commit(self, at: str) -> None:
        self._ask(self._make.rest("POST", f"{at}/branches/main/commits", {"message": "m"}))

    def _ask(self, request: bytes) -> None:
        answered(1, send_each(self._server.port, [iter([request])]))


def answered(count: int, load: Load) -> Load:
    """Return a load of so many requests; raise RuntimeError if some were refused."""
    if load.answered < count:
        raise RuntimeError(f"{load.refused} of {count} requests were refused")
    return load
