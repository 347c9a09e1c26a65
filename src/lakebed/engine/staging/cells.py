"""Cells: the record of a key in a staging token, and the single rule for reading it.

A cell has a *value*: an entry, or a tombstone, encoded as bytes. During a conditional write, it may
have a *proposal* beside its value, or alone: the value to stage, and the version of the branch
record under which the condition was judged. A proposal is not visible, and only its owner turns it
into the value (`writer`). A cell with a proposal alone is not a tombstone: no change is staged.

**The rule.** A reader at version w of the branch record that meets a proposal made under another
version removes the proposal before using the cell, and ignores a proposal made under w. A sealed
token is read for any later version: all proposals in the token are removed.

*Why this suffices.* The owner writes the proposal, then reads the branch again, and confirms only
if the version is still the proposal's. So a confirmable proposal was in its cell before the branch
left that version. A reader of a later version meets the proposal, and the store decides by
compare-and-swap on this one cell: either the value was confirmed, and the reader sees it, or the
proposal was removed, was never visible, and the owner starts again. A proposal written later is
never confirmed. A write confirmed late takes effect before the branch left the version of its
condition: every reader of a later version sees it.

Removing a proposal leaves the value beside it, with the value's own version, so that a writer still
recognises its own value (`writer: UndoLog`). The cell itself gets a new version: with a repeated
version, a delayed request could be applied after its call had ended.

The proposal of a dead owner does no harm: the first scan after a change of the branch removes it,
and so does any write of the key.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from google.protobuf.message import DecodeError

from lakebed.base.errors import quoted
from lakebed.base.runtime import from_datetime, to_datetime
from lakebed.engine import records_pb2 as pb
from lakebed.engine.errors import TooManyTries
from lakebed.engine.keys import STAGED_PREFIX
from lakebed.engine.model import Branch, StagingToken
from lakebed.formats import AddressType, Entry
from lakebed.kv import (
    CorruptRecord,
    Item,
    OutcomeUnknown,
    Pair,
    PredicateFailed,
    Store,
    StoreUnavailable,
    Version,
)

TOMBSTONE: Final = pb.StagedEntry().SerializeToString()
"""The value that stages the removal of a key: no identity."""

# Calling the enum type would take as long as parsing the entry.
_ADDRESS_TYPES: Final = {int(each): each for each in AddressType}


def encode(entry: Entry, *, replaced_address: str = "") -> bytes:
    """Return the value that stages an entry; `replaced_address` is the replaced entry's."""
    return pb.StagedEntry(
        identity=entry.identity,
        entry=pb.Entry(
            address=entry.address,
            address_type=pb.AddressType.Name(entry.address_type),
            size=entry.size,
            checksum=entry.checksum,
            modified_us=from_datetime(entry.mtime),
            content_type=entry.content_type,
            metadata=entry.metadata,
        ),
        replaced_address=replaced_address,
    ).SerializeToString()


def decode(key: bytes, value: bytes) -> Entry | None:
    """Return the entry that a value stages, or None for a tombstone; raises as `parse`."""
    staged = parse(key, value)
    if not staged.identity:
        return None
    entry = staged.entry
    return Entry(
        key=key,
        identity=staged.identity,
        address=entry.address,
        address_type=_ADDRESS_TYPES[entry.address_type],
        size=entry.size,
        checksum=entry.checksum,
        mtime=to_datetime(entry.modified_us),
        content_type=entry.content_type,
        metadata=dict(entry.metadata) if entry.metadata else {},
    )


def path_of(name: bytes) -> bytes:
    """Return the object path in the name of a staged key."""
    return name[len(STAGED_PREFIX) :]


def parse_all(staged: Sequence[Item | Pair]) -> list[pb.StagedEntry]:
    """Return staged values as messages; raises as `parse`."""
    try:
        return [pb.StagedEntry.FromString(each[1]) for each in staged]
    except DecodeError:
        return [parse(each[0], each[1]) for each in staged]  # tells which value is corrupt


def parse(key: bytes, value: bytes) -> pb.StagedEntry:
    """Return a staged value as a message, or raise `CorruptRecord`."""
    try:
        return pb.StagedEntry.FromString(value)
    except DecodeError as error:
        raise CorruptRecord(f"the staged value of {quoted(key)} cannot be read: {error}") from error


PROPOSAL_PREFIX: Final = b"\xff"
"""First byte of a cell with a proposal. No message begins with this byte, so older programs refuse
such a cell instead of reading a tombstone. All messages sort before it, the cheapest test."""

_TRIES: Final = 100


class Cells:
    """The cells of some tokens, as visible at a version of a branch record."""

    def __init__(
        self, store: Store, tokens: Sequence[StagingToken], version: Version | None = None
    ) -> None:
        """Prepare to read tokens, newest first, at a version of the branch record.

        Without a version, the tokens are sealed: every proposal in them is removed.
        """
        self.store: Final = store
        self.tokens: Final = tuple(tokens)
        self._version = version
        self.passed_over: list[bytes] = []
        """Keys of cells whose proposals were ignored, as met by scans."""

    @classmethod
    def of(cls, store: Store, branch: Branch) -> "Cells":
        """Return the cells of all tokens of a branch just read."""
        return cls(store, branch.tokens, branch.version)

    def settled(self, items: Sequence[Item | None]) -> list[Item | None]:
        """Return cells, one for each token, without proposals of other versions.

        Raises `TooManyTries` if new proposals were made every time.
        """
        pairs = zip(self.tokens, items, strict=True)
        return [self._settled(token, item) for token, item in pairs]

    def visible(self, token: StagingToken, rows: Iterable[Pair]) -> Iterator[Pair]:
        """Yield the cells of a token that have a value, reduced to the value."""
        for row in rows:
            if row[1] < PROPOSAL_PREFIX:
                yield row
            elif (value := self._value_in(token, row)) is not None:
                yield row[0], value

    def _value_in(self, token: StagingToken, row: Pair) -> bytes | None:
        proposed = parse_proposed(*row)
        if not proposed.HasField("proposal"):
            return value_in(*row)
        if proposed.branch_version == self._version:
            self.passed_over.append(path_of(row[0]))
            return value_in(*row)
        # Read again: pairs of a scan have no versions.
        (item,) = self.store.get_many([(token.encode(), row[0])])
        item = self._settled(token, item)
        if has_proposal(item):
            self.passed_over.append(path_of(row[0]))
        return value_of(item)

    def _settled(self, token: StagingToken, item: Item | None) -> Item | None:
        for _ in range(_TRIES):
            if item is None or not has_proposal(item):
                return item
            if parse_proposed(item.key, item.value).branch_version == self._version:
                return item
            remove_proposal(self.store, token, item)
            (item,) = self.store.get_many([(token.encode(), item.key)])
        assert item is not None
        raise TooManyTries(f"the read of {quoted(path_of(item.key))}", _TRIES)


def value_of(item: Item | None) -> bytes | None:
    """Return the value of a cell, or None without a value; raise `CorruptRecord` if unreadable."""
    return None if item is None else value_in(item.key, item.value)


def value_in(key: bytes, cell: bytes) -> bytes | None:
    """Return the value of a cell, or None without a value; raises as `value_of`."""
    if cell < PROPOSAL_PREFIX:
        return cell
    proposed = parse_proposed(key, cell)
    return proposed.value.SerializeToString() if proposed.HasField("value") else None


def version_of(item: Item) -> Version:
    """Return the version of a cell's value, which a proposal beside it does not change."""
    if item.value < PROPOSAL_PREFIX:
        return item.predicate
    return Version(parse_proposed(item.key, item.value).value_version)


def newest(items: Iterable[Item | None]) -> bytes | None:
    """Return the effective value among the settled cells of a key, newest token first, or None."""
    return next((value for value in map(value_of, items) if value is not None), None)


def has_proposal(item: Item | None) -> bool:
    """Return whether a cell has a proposal."""
    if item is None or item.value < PROPOSAL_PREFIX:
        return False
    return parse_proposed(item.key, item.value).HasField("proposal")


def propose(found: Item | None, value: bytes, branch_version: Version) -> bytes:
    """Return a cell with a proposal to stage `value` added, replacing any other proposal."""
    proposed = pb.ProposedEntry(
        proposal=pb.StagedEntry.FromString(value), branch_version=branch_version
    )
    beside = value_of(found)
    if found is not None and beside is not None:
        proposed.value.CopyFrom(parse(found.key, beside))
        proposed.value_version = version_of(found)
    return PROPOSAL_PREFIX + proposed.SerializeToString()


def remove_proposal(store: Store, token: StagingToken, item: Item) -> None:
    """Remove the proposal from a cell as read; ignores concurrent changes.

    Raises:
        StoreUnavailable: Nothing was changed.
    """
    proposed = parse_proposed(item.key, item.value)
    partition = token.encode()
    try:
        if proposed.HasField("value"):
            proposed.ClearField("proposal")
            proposed.ClearField("branch_version")
            cell = PROPOSAL_PREFIX + proposed.SerializeToString()
            store.set(partition, item.key, cell, item.predicate)
        else:
            store.delete(partition, item.key, item.predicate)
    except StoreUnavailable:
        raise
    except (PredicateFailed, OutcomeUnknown):
        return


def all_values(rows: Iterable[Item]) -> Iterator[Pair]:
    """Yield each value and each proposal of cells as a separate row.

    For callers that must see every entry, visible now or later.
    """
    for key, value, _ in rows:
        if value < PROPOSAL_PREFIX:
            yield key, value
            continue
        proposed = parse_proposed(key, value)
        if proposed.HasField("value"):
            yield key, proposed.value.SerializeToString()
        if proposed.HasField("proposal"):
            yield key, proposed.proposal.SerializeToString()


def parse_proposed(key: bytes, value: bytes) -> pb.ProposedEntry:
    """Return a cell that has, or had, a proposal as a message, or raise `CorruptRecord`."""
    try:
        proposed = pb.ProposedEntry.FromString(value[len(PROPOSAL_PREFIX) :])
    except DecodeError as error:
        raise CorruptRecord(f"the staged value of {quoted(key)} cannot be read: {error}") from error
    is_proposed = proposed.HasField("proposal")
    is_staged = proposed.HasField("value")
    if bool(proposed.branch_version) != is_proposed or not (is_proposed or is_staged):
        raise CorruptRecord(f"the staged value of {quoted(key)} cannot be read: no proposal in it")
    return proposed
