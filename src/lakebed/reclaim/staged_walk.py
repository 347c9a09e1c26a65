"""The staged entries of all branches, page by page: see `prepare`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from lakebed.engine.keys import STAGED_PREFIX
from lakebed.engine.model import Branch, Repository, StagingToken
from lakebed.engine.refs.branches import Branches
from lakebed.engine.staging.cells import spelled_out
from lakebed.engine.staging.codec import parse_all
from lakebed.formats import AddressType
from lakebed.formats.gc_files import GCFile, GCFileKind
from lakebed.kv import Item as StagedRecord
from lakebed.kv import Store
from lakebed.reclaim.run_files import RunFiles, TableWriter
from lakebed.runtime import Runtime

# How many branches are looked at together, and staged records read between two looks at the clock.
_BRANCHES: Final = 256
_RECORDS: Final = 1024

_RELATIVE: Final = int(AddressType.RELATIVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLimits:
    """When a page ends; each page gets somewhere, however small these are."""

    objects: int = 1_000_000
    branches: int = 10_000
    seconds: float = 30.0


DEFAULT_LIMITS: Final = PageLimits()


@dataclass(frozen=True, slots=True)
class Position:
    """Where a page goes on: after a branch, some of whose tokens may not be read to the end."""

    after: str = ""
    tokens: tuple[StagingToken, ...] = ()
    """The tokens of the branch `after` that are left, the first of them from `key` on."""
    key: bytes = b""

    def encode(self) -> dict[str, Any]:
        return {"after": self.after, "tokens": list(self.tokens), "key": self.key.hex()}

    @classmethod
    def decode(cls, content: dict[str, Any]) -> "Position":
        tokens = tuple(StagingToken(token) for token in content["tokens"])
        return cls(content["after"], tokens, bytes.fromhex(content["key"]))


class StagedWalk:
    """Writes down staged entries, for one page."""

    def __init__(
        self,
        branches: Branches,
        store: Store,
        runtime: Runtime,
        repository: Repository,
        files: RunFiles,
    ) -> None:
        self._branches = branches
        self._store = store
        self._runtime = runtime
        self._repository = repository
        self._writer = TableWriter(files, GCFileKind.STAGED)
        self._prefix = str(repository.namespace)

    @property
    def written(self) -> list[GCFile]:
        """The files that were written."""
        return self._writer.written

    def run(self, position: Position, limits: PageLimits) -> Position | None:
        """Write down staged entries from a position on; return where to go on, or None."""
        following = self._run(position, limits)
        self._writer.flush()
        return following

    def _run(self, position: Position, limits: PageLimits) -> Position | None:
        deadline = self._runtime.monotonic() + limits.seconds
        looked_at = 0

        def is_full() -> bool:
            return self._writer.rows >= limits.objects or self._runtime.monotonic() >= deadline

        left = self._read(position, is_full)
        if left is not None:
            return left
        branches = self._branches.list_referencing(self._repository, after=position.after)
        while batch := list(islice(branches, min(_BRANCHES, limits.branches))):
            busy = self._runtime.map_parallel(self._is_busy, batch)
            for branch, has_entries in zip(batch, busy, strict=True):
                position = Position(branch.id, branch.tokens if has_entries else ())
                left = self._read(position, is_full)
                if left is not None:
                    return left
            looked_at += len(batch)
            if is_full() or looked_at >= limits.branches:
                return Position(batch[-1].id)
        return None

    def _is_busy(self, branch: Branch) -> bool:
        scans = (
            self._store.scan(token.encode(), STAGED_PREFIX, limit=1) for token in branch.tokens
        )
        return any(next(scan, None) is not None for scan in scans)

    def _read(self, position: Position, is_full: Callable[[], bool]) -> Position | None:
        """Read what is left of the tokens of a branch; return where it was full, if it was."""
        key = position.key
        for number, token in enumerate(position.tokens):
            for page in self._pages(token, key):
                self._writer.add(self._addresses(page))
                if is_full():
                    tokens = position.tokens[number:]
                    return Position(position.after, tokens, page[-1].key + b"\x00")
            key = b""
        return None

    def _pages(self, token: StagingToken, key: bytes) -> Iterator[list[StagedRecord]]:
        records = self._store.scan(token.encode(), key or STAGED_PREFIX)
        while page := list(islice(records, _RECORDS)):
            yield page

    def _addresses(self, page: list[StagedRecord]) -> list[str]:
        """Return the addresses that values and proposals name; a tombstone names none."""
        rows = list(spelled_out(page))
        messages = [message for message in parse_all(rows) if message.identity]
        prefix = self._prefix
        named = [
            prefix + entry.address if entry.address_type == _RELATIVE else entry.address
            for entry in (message.entry for message in messages)
        ]
        # What a write has replaced may be put back.
        replaced = [message.replaced_address for message in messages]
        return named + [
            address if "://" in address else prefix + address for address in replaced if address
        ]
