"""A small model of a repository and its storage, for histories of garbage collection.

Every operation is a generator that yields after each call to the key-value store or to the storage;
a seed decides which one goes next, and how long each waits. The operations follow the
rules that the server follows (age of objects, order of steps); a test breaks one of them to see
that the checks find it. Time is a number of ticks.
"""

import random
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from lakebed.formats.object_paths import ObjectPath, PartitionID, new_object_uid, new_partition

Pause = Any
"""How many ticks an operation waits before its next step; None: a random time."""

Steps = Generator[Pause, None, bool]

SKEW = 4
LINK_LIFE = 100
COPY_WINDOW = 40
MIN_AGE = 240
HOLD = MIN_AGE // 2
GAP = 60
SCAN_LIMIT = 20
PARTITION_LIFE = 30
MULTIPART_LIFE = 200
PARTITION_OPEN = PARTITION_LIFE + max(HOLD, MULTIPART_LIFE) + SKEW


class DataLossError(AssertionError):
    """A reachable entry lost its object."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A value in staging or in a commit; every write makes a new one."""

    path: str | None
    """None: a tombstone."""
    content: int = 0
    late: bool = False
    """Whether the writer slept past the limit, and will not acknowledge the write."""
    whole: bool = False
    """Whether the entry has the full address, with the namespace."""
    replaced: str | None = None
    """For a staged entry: the path it replaced, which its writer may still put back."""


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    uid: int
    head: int
    staging: int
    sealed: tuple[int, ...] = ()

    @property
    def tokens(self) -> tuple[int, ...]:
        return (self.staging, *self.sealed)


@dataclass(frozen=True, slots=True)
class Commit:
    parent: int | None
    entries: dict[str, Entry]
    published: bool = False


@dataclass(slots=True)
class Process:
    """A server: it has a wrong clock, and its own partition."""

    number: int
    offset: int
    partition: PartitionID | None = None
    made: int = -(1 << 60)


@dataclass(slots=True)
class Link:
    path: str
    expiry: int
    branch: str
    key: str
    consumed: bool = False


@dataclass
class GCWorld:
    random: random.Random
    now: int = 10_000
    repository_uid: str | None = "a0"
    owner: str = "a0"
    adopted: tuple[str, ...] = ()
    branches: dict[str, Branch] = field(default_factory=dict)
    staged: dict[int, dict[str, Entry]] = field(default_factory=dict)
    commits: dict[int, Commit] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)
    links: dict[str, Link] = field(default_factory=dict)
    multiparts: dict[str, int] = field(default_factory=dict)
    objects: dict[str, int] = field(default_factory=dict)
    """The storage: when each object was written."""
    deleted: set[str] = field(default_factory=set)
    late_objects: set[str] = field(default_factory=set)
    """Objects that a writer who slept too long wrote to closed partitions."""
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(1, 1 << 30)))
    processes: list[Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.processes = [Process(n, self.random.randint(0, SKEW)) for n in range(3)]
        root = self.new_commit(None, {}, published=True)
        self.branches["main"] = self.new_branch(root)

    def number(self) -> int:
        return next(self.numbers)

    # Records

    def branch(self, repository_uid: str | None, name: str) -> Branch | None:
        """A branch; None if it, or the repository with this id, is gone."""
        return self.branches.get(name) if repository_uid == self.repository_uid else None

    def new_branch(self, head: int) -> Branch:
        return Branch(self.number(), head, self.new_token())

    def new_token(self) -> int:
        token = self.number()
        self.staged[token] = {}
        return token

    def new_commit(
        self,
        parent: int | None,
        entries: dict[str, Entry],
        *,
        published: bool = False,
    ) -> int:
        commit = self.number()
        self.commits[commit] = Commit(parent, entries, published)
        return commit

    def swap(self, name: str, before: Branch, after: Branch) -> bool:
        if self.branches.get(name) is not before:
            return False
        self.branches[name] = after
        if after.head != before.head and after.head in self.commits:
            head = self.commits[after.head]
            self.commits[after.head] = replace(head, published=True)
            for key, entry in head.entries.items():
                self.check_entry(entry, f"{key} of commit {after.head}, which was just published,")
        return True

    def entries(self, commit: int) -> dict[str, Entry]:
        """What a commit holds; nothing, if its repository is gone."""
        return self.commits[commit].entries if commit in self.commits else {}

    # Storage

    def issue(self, process: Process, branch: str) -> str:
        now = self.now + process.offset
        if now - process.made >= PARTITION_LIFE:
            process.made = now
            process.partition = new_partition(now, self.number().to_bytes(6))
        assert process.partition is not None
        uid = new_object_uid(now, self.number().to_bytes(10))
        return str(ObjectPath(str(self.repository_uid), branch, process.partition, uid))

    def put(self, path: str) -> None:
        parts = ObjectPath.parse(path)
        assert parts is not None
        if self.now > parts.made_us + PARTITION_OPEN:
            self.late_objects.add(path)
        self.objects[path] = self.now
        self.deleted.discard(path)

    def age(self, process: Process, path: str) -> int:
        parts = ObjectPath.parse(path)
        assert parts is not None
        return self.now + process.offset - parts.issued_us

    def is_recent(self, process: Process, path: str) -> bool:
        return self.age(process, path) < HOLD

    def delete_object(self, path: str) -> None:
        """Delete as garbage collection does, and check that nothing names the object."""
        for name, branch in self.branches.items():
            for token in branch.tokens:
                for key, entry in self.staged.get(token, {}).items():
                    if entry.path == path and not entry.late:
                        raise DataLossError(f"{path} is staged on {name} as {key}")
        for number, commit in self.commits.items():
            for key, entry in commit.entries.items():
                # Nobody knows an unpublished record: `swap` checks it when it is published.
                if commit.published and entry.path == path and not entry.late:
                    raise DataLossError(f"{path} is {key} of commit {number}")
        self.objects.pop(path, None)
        self.deleted.add(path)

    def check_entry(self, entry: Entry, where: str) -> None:
        if entry.path is not None and not entry.late and entry.path not in self.objects:
            raise DataLossError(f"{where} names {entry.path}, which is gone")

    def check(self) -> None:
        """Check that every reachable entry has its object."""
        for number, commit in self.commits.items():
            if commit.published:
                for key, entry in commit.entries.items():
                    self.check_entry(entry, f"{key} of commit {number}")

    def reachable(self) -> set[str]:
        staged = [
            entry
            for branch in self.branches.values()
            for token in branch.tokens
            for entry in self.staged.get(token, {}).values()
        ]
        committed = (entry for commit in self.commits.values() for entry in commit.entries.values())
        paths = {entry.path for entry in (*staged, *committed) if entry.path is not None}
        replaced = {entry.replaced for entry in staged if entry.replaced is not None}
        return paths | replaced | set(self.links) | set(self.multiparts)
