"""Repositories of lakeFS made by tests: a history of table files, and what each commit lists."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lakebed.clients.migrate import lakefs_pb2 as pb
from lakebed.clients.migrate.lakefs_source import (
    SourceBranch,
    SourceChange,
    SourceCommit,
    SourceTag,
)
from lakebed.clients.migrate.values import read_entry
from lakebed.formats import Entry
from tests.kit.lakefs_tables import table, value

NAMESPACE = "s3://old/lake"
Contents = Mapping[bytes, int]
"""Keys, each with a number that stands for the content of the object."""


@dataclass
class FakeLakeFS:
    """A repository of lakeFS: files by id, refs, and what was read of it."""

    namespace: str = NAMESPACE
    files: dict[str, bytes] = field(default_factory=dict)
    history: dict[str, SourceCommit] = field(default_factory=dict)
    heads: dict[str, str] = field(default_factory=dict)
    tagged: dict[str, str] = field(default_factory=dict)
    protected: list[str] = field(default_factory=lambda: ["main", "stable-*"])
    """The patterns of protected branches."""
    staged: dict[str, dict[bytes, int | None]] = field(default_factory=dict)
    """What is uncommitted, by branch; None: removed."""
    lists: dict[str, Contents] = field(default_factory=dict)
    """What each commit lists."""
    imported: dict[tuple[bytes, int], str] = field(default_factory=dict)
    """Whole addresses of contents that were imported, by key and number."""
    read: list[str] = field(default_factory=list)
    """The ids of the files that were asked for."""

    def commit(
        self, contents: Contents, *parents: str, message: str = "", swapped: bool = False
    ) -> str:
        """Add a commit; ranges end behind keys whose hash says so, as those of lakeFS do."""
        metarange_id = self._write(contents)
        made = SourceCommit(
            id="",
            committer="ann",
            message=message or f"commit {len(self.history)}",
            created_us=1_700_000_000_000_000 + len(self.history) * 1_000_000,
            metarange_id=metarange_id,
            metadata={"number": str(len(self.history))},
            parents=parents,
            swapped=swapped,
        )
        commit_id = id_of(made)
        self.history[commit_id] = SourceCommit(
            **{**{name: getattr(made, name) for name in SourceCommit.__slots__}, "id": commit_id}
        )
        self.lists[commit_id] = dict(contents)
        return commit_id

    def _write(self, contents: Contents) -> str:
        ranges: list[tuple[bytes, bytes]] = []
        rows: list[tuple[bytes, bytes]] = []
        for key in sorted(contents):
            rows.append((key, value(*self.message(key, contents[key]))))
            if hashlib.md5(key).digest()[0] < 64:
                ranges.append(self.close(rows))
                rows = []
        if rows:
            ranges.append(self.close(rows))
        return self.store(table(ranges))

    def close(self, rows: list[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
        range_id = self.store(table(rows, rows_per_block=3))
        low, high = rows[0][0], rows[-1][0]
        data = pb.RangeData(min_key=low, max_key=high, count=len(rows), estimated_size=1)
        return high, value(range_id.encode(), data.SerializeToString())

    def store(self, data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()
        self.files[name] = data
        return name

    # What a source tells

    def commits(self) -> Iterator[SourceCommit]:
        yield from self.history.values()

    def branches(self) -> Iterator[SourceBranch]:
        return (SourceBranch(name, head) for name, head in self.heads.items())

    def tags(self) -> Iterator[SourceTag]:
        return (SourceTag(name, commit_id) for name, commit_id in self.tagged.items())

    def changes(self, branch: SourceBranch) -> Iterator[SourceChange]:
        for key, number in sorted(self.staged.get(branch.name, {}).items()):
            yield SourceChange(key, None if number is None else self.entry(key, number))

    def message(self, key: bytes, number: int) -> tuple[bytes, bytes]:
        address = self.imported.get((key, number))
        return entry_of(key, number, address, pb.FULL) if address else entry_of(key, number)

    def entry(self, key: bytes, number: int) -> Entry:
        return read_entry(key, *self.message(key, number), self.namespace)

    def metarange(self, metarange_id: str) -> bytes:
        self.read.append(metarange_id)
        return self.files[metarange_id]

    def range(self, range_id: str) -> bytes:
        self.read.append(range_id)
        return self.files[range_id]


def entry_of(
    key: bytes, number: int, address: str = "", kind: pb.AddressType = pb.RELATIVE
) -> tuple[bytes, bytes]:
    """The identity and the message of an entry."""
    entry = pb.Entry(
        address=address or f"data/{key.hex()}-{number}",
        size=number,
        e_tag=hashlib.md5(b"%d" % number).hexdigest(),
        metadata={"n": str(number)} if number % 3 == 0 else {},
        address_type=kind,
        content_type="text/plain",
    )
    entry.last_modified.seconds = 1_600_000_000 + number
    identity = hashlib.sha256(b"%d" % number).digest()
    return identity, entry.SerializeToString(deterministic=True)


def id_of(commit: SourceCommit) -> str:
    """The id that lakeFS gives, byte by byte."""

    def number(count: int) -> bytes:
        return bytes([2, 8]) + count.to_bytes(8, "big")

    def text(content: str) -> bytes:
        return bytes([1]) + number(len(content.encode())) + content.encode()

    parents = commit.parents[::-1] if commit.swapped else commit.parents
    listed = bytes([3]) + number(len(parents)) + b"".join(map(text, parents))
    whole = text("commit:v1") + text(commit.committer) + text(commit.message)
    whole += text(commit.metarange_id) + number(commit.created_us // 1_000_000)
    whole += bytes([4]) + number(len(commit.metadata))
    for item in sorted(commit.metadata.items()):
        whole += text(item[0]) + text(item[1])
    whole += bytes([5, 0]) + number(32) + hashlib.sha256(listed).digest()
    return hashlib.sha256(whole).hexdigest()
