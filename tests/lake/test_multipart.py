"""Multipart uploads: decided once, whoever asks how often, and whatever dies on the way."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import pytest

from lakebed.block import StorageUnavailable, streams
from lakebed.engine.errors import (
    BranchNotFound,
    EntryNotFound,
    PreconditionFailed,
    Protected,
    Stale,
)
from lakebed.engine.model import BranchID
from lakebed.engine.staging.writer import if_absent
from lakebed.kv import StoreUnavailable
from lakebed.kv.records import Records
from lakebed.lake.checksums import ALGORITHMS, SCHEMES, Checksum, ChecksumType, MD5Digest, Scheme
from lakebed.lake.entry_metadata import checksum_of
from lakebed.lake.errors import (
    BadDigest,
    ChecksumUnknown,
    InvalidParts,
    MultipartNotFound,
    PartMissing,
    PartsOutOfOrder,
    PartTooSmall,
)
from lakebed.lake.keys import MULTIPART_PARTS, MULTIPARTS
from lakebed.lake.multipart.complete import PART_BYTES_MIN
from lakebed.lake.multipart.records import (
    MultipartID,
    MultipartRecords,
    NamedPart,
    Target,
    UploadRecord,
)
from lakebed.lake.uploads import Stager
from tests.kit.lake import DEV, MAIN, REPOSITORY, Lake

FIRST = b"1" * PART_BYTES_MIN
LAST = b"end"
PATH = b"a"


@dataclass
class _Proof:
    """Of bytes that came with a checksum."""

    checksum: Checksum
    md5: MD5Digest | None = None

    @property
    def algorithm(self) -> str:
        return self.checksum.algorithm

    def verified(self) -> Checksum:
        return self.checksum


class _Marked:
    """Stands for an MD5 that somebody computes: no bytes have this one."""

    update = digest = None  # whoever called one of them would fail

    def hexdigest(self) -> str:
        return "f" * 32


def test_bytes_that_are_hashed_already_are_not_hashed_again(lake: Lake) -> None:
    proof = _Proof(Checksum("crc32", "AAAAAA=="), cast("MD5Digest", _Marked()))
    stats = lake.catalog.uploads.upload(REPOSITORY, MAIN, PATH, [b"da", b"ta"], proof=proof)
    assert stats.checksum == "f" * 32
    part = lake.catalog.multiparts.put_part(begin(lake), 1, [b"da", b"ta"], size=4, proof=proof)
    assert part.md5 == "f" * 32


def begin(lake: Lake, scheme: Scheme | None = None) -> Target:
    upload = lake.catalog.multiparts.create(
        REPOSITORY, MAIN, PATH, content_type="t/t", metadata={"k": "v"}, scheme=scheme
    )
    return Target(REPOSITORY, MAIN, PATH, upload.id)


def send(lake: Lake, target: Target, number: int, data: bytes) -> NamedPart:
    part = lake.catalog.multiparts.put_part(target, number, [data[:2], data[2:]], size=len(data))
    assert part.md5 == hashlib.md5(data).hexdigest()
    return NamedPart(number, part.md5)


def send_all(lake: Lake, target: Target) -> list[NamedPart]:
    return [send(lake, target, 2, FIRST), send(lake, target, 7, LAST)]


def records(lake: Lake) -> tuple[int, int]:
    """How many records there are of uploads, and of parts."""
    partition = lake.repository.partition
    uploads = Records(lake.store, MULTIPARTS, partition).scan()
    return len(list(uploads)), len(list(Records(lake.store, MULTIPART_PARTS, partition).scan()))


def expected_etag(*bodies: bytes) -> str:
    inner = b"".join(hashlib.md5(body).digest() for body in bodies)
    return f"{hashlib.md5(inner).hexdigest()}-{len(bodies)}"


def test_parts_become_an_object(lake: Lake) -> None:
    target = begin(lake)
    named = send_all(lake, target)
    with pytest.raises(EntryNotFound):
        lake.catalog.objects.stat(REPOSITORY, "main", PATH)
    stats = lake.catalog.completions.complete(target, named)
    assert lake.catalog.objects.stat(REPOSITORY, "main", PATH) == stats
    assert lake.text("main", PATH) == (FIRST + LAST).decode()
    assert stats.checksum == expected_etag(FIRST, LAST)
    assert (stats.size, stats.content_type, stats.metadata) == (
        len(FIRST) + len(LAST),
        "t/t",
        {"k": "v"},
    )


def test_the_bytes_of_a_part_are_hashed_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[int] = []

    class Counted:
        def __init__(self, **_options: object) -> None:
            self._inner = hashlib.md5()

        def update(self, data: bytes) -> None:
            hashed.append(len(data))
            self._inner.update(data)

        def hexdigest(self) -> str:
            return self._inner.hexdigest()

    target = begin(lake)
    monkeypatch.setattr(streams, "md5", Counted)
    send(lake, target, 1, LAST)
    assert sum(hashed) == len(LAST)


def test_a_part_sent_again_counts_and_others_are_left_out(lake: Lake) -> None:
    target = begin(lake)
    send(lake, target, 1, b"old")
    send(lake, target, 2, b"left out")
    again = send(lake, target, 1, b"new")
    listed = lake.catalog.multiparts.list_parts(target)
    assert [(part.number, part.md5, part.size) for part in listed.parts] == [
        (1, again.md5, 3),
        (2, hashlib.md5(b"left out").hexdigest(), 8),
    ]
    lake.catalog.completions.complete(target, [again])
    assert lake.text("main", PATH) == "new"


def test_repeating_answers_the_same_and_stages_nothing(lake: Lake) -> None:
    target = begin(lake)
    named = send_all(lake, target)
    stats = lake.catalog.completions.complete(target, named)
    assert records(lake) == (1, 0)
    lake.catalog.objects.delete(REPOSITORY, MAIN, PATH)
    assert lake.catalog.completions.complete(target, named) == stats
    assert not lake.exists(PATH)
    with pytest.raises(MultipartNotFound):
        lake.catalog.completions.complete(target, named[:1])


def test_an_upload_that_is_over_takes_nothing_more(lake: Lake) -> None:
    target = begin(lake)
    lake.catalog.completions.complete(target, send_all(lake, target))
    assert list(lake.catalog.multiparts.list_open(REPOSITORY)) == []
    for call in (
        lambda: send(lake, target, 1, b"late"),
        lambda: lake.catalog.multiparts.list_parts(target),
        lambda: lake.catalog.multiparts.abort(target),
    ):
        with pytest.raises(MultipartNotFound):
            call()
    assert lake.text("main", PATH) == (FIRST + LAST).decode()


class Died(Exception):
    """The process ended here."""


@pytest.mark.parametrize("step", ["decide", "complete_upload", "put", "record_staged"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_repeat_goes_on_from_wherever_the_first_request_died(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, step: str, when: str
) -> None:
    owners: dict[str, type] = {
        "complete_upload": type(lake.block),
        "put": Stager,
    }
    owner = owners.get(step, MultipartRecords)
    target = begin(lake)
    named = send_all(lake, target)
    real = getattr(owner, step)

    def die(*args: object, **kwargs: object) -> None:
        if when == "after":
            real(*args, **kwargs)
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, die)
        with pytest.raises(Died):
            lake.catalog.completions.complete(target, named)
    stats = lake.catalog.completions.complete(target, named)
    assert lake.text("main", PATH) == (FIRST + LAST).decode()
    assert lake.catalog.completions.complete(target, named) == stats
    assert len(lake.stored()) == 1


def test_a_decision_that_is_taken_back_is_not_acknowledged(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another request found its parts gone, and opens the upload again at the last moment."""
    target = begin(lake)
    named = send_all(lake, target)
    record_staged = MultipartRecords.record_staged

    def too_late(self: MultipartRecords, decided: UploadRecord) -> bool:
        self.reopen(decided)
        return record_staged(self, decided)

    with monkeypatch.context() as patch:
        patch.setattr(MultipartRecords, "record_staged", too_late)
        with pytest.raises(PartMissing, match="during the completion"):
            lake.catalog.completions.complete(target, named)
    # What was joined then may be of other parts than those that are named now.
    with pytest.raises(MultipartNotFound):
        lake.catalog.completions.complete(target, named)


def test_an_upload_that_is_dropped_meanwhile_is_not_acknowledged(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing protects its object any more, and garbage collection may have seen that."""
    target = begin(lake)
    named = send_all(lake, target)
    is_current = MultipartRecords.is_current

    def dropped(self: MultipartRecords, decided: UploadRecord) -> bool:
        if lake.exists(PATH):
            self.drop(decided)
        return is_current(self, decided)

    monkeypatch.setattr(MultipartRecords, "is_current", dropped)
    with pytest.raises(Stale):
        lake.catalog.completions.complete(target, named)
    assert not lake.exists(PATH)


def test_a_storage_that_does_not_answer_leaves_an_upload_to_be_completed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = begin(lake)
    named = send_all(lake, target)

    def fail(*_args: object, **_kwargs: object) -> None:
        raise StorageUnavailable("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(type(lake.block), "complete_upload", fail)
        with pytest.raises(StorageUnavailable):
            lake.catalog.completions.complete(target, named)
    lake.catalog.completions.complete(target, named)
    assert lake.text("main", PATH) == (FIRST + LAST).decode()


def test_a_part_sent_again_while_completing_is_never_in_the_object_unnoticed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = begin(lake)
    named = [send(lake, target, 1, b"first")]
    storage = type(lake.block)
    real = storage.complete_upload
    upload = (
        Records(lake.store, MULTIPARTS, lake.repository.partition)
        .get(target.upload_id.encode())
        .message
    )
    address = lake.repository.namespace.address(upload.address)

    def late(*args: object, **kwargs: object) -> object:
        # A request that found the upload open, and takes its bytes only now.
        lake.block.put_part(address, upload.storage_upload_id, 1, [b"other"], size=5)  # type: ignore[arg-type]
        return real(*args, **kwargs)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(storage, "complete_upload", late)
        with pytest.raises(PartMissing):
            lake.catalog.completions.complete(target, named)
    assert not lake.exists(PATH)
    # It is open as before.
    again = send(lake, target, 1, b"third")
    lake.catalog.completions.complete(target, [again])
    assert lake.text("main", PATH) == "third"


def test_parts_are_named_in_order_whole_and_large_enough(lake: Lake) -> None:
    target = begin(lake)
    small, last = send(lake, target, 1, b"small"), send(lake, target, 2, b"last")
    complete = lake.catalog.completions.complete
    cases: list[tuple[list[NamedPart], type[Exception]]] = [
        ([], InvalidParts),
        ([last, small], PartsOutOfOrder),
        ([small, small], PartsOutOfOrder),
        ([small, last], PartTooSmall),
        ([NamedPart(1, last.md5)], PartMissing),
        ([NamedPart(1, "no md5")], PartMissing),
        ([small, NamedPart(3, last.md5)], PartMissing),
    ]
    for named, error in cases:
        with pytest.raises(error):
            complete(target, named)
    complete(target, [last])
    assert lake.text("main", PATH) == "last"


@pytest.mark.parametrize("number", [0, -1, 10_001])
def test_parts_have_numbers(lake: Lake, number: int) -> None:
    with pytest.raises(InvalidParts):
        send(lake, begin(lake), number, b"x")


def test_a_part_that_breaks_off_leaves_the_one_before(lake: Lake) -> None:
    target = begin(lake)
    named = [send(lake, target, 1, b"whole")]

    def broken() -> Iterator[bytes]:
        yield b"ha"
        raise Died

    with pytest.raises(Died):
        lake.catalog.multiparts.put_part(target, 1, broken(), size=4)
    lake.catalog.completions.complete(target, named)
    assert lake.text("main", PATH) == "whole"


def test_an_upload_is_known_by_all_that_it_is_for(lake: Lake) -> None:
    target = begin(lake)
    for other in (
        Target(REPOSITORY, DEV, PATH, target.upload_id),
        Target(REPOSITORY, MAIN, b"b", target.upload_id),
        Target(REPOSITORY, MAIN, PATH, MultipartID("other")),
    ):
        with pytest.raises(MultipartNotFound):
            send(lake, other, 1, b"x")


def test_a_named_checksum_is_compared_where_one_is_known(lake: Lake) -> None:
    checksum, other = Checksum("crc32", "AAAAAA=="), Checksum("crc32", "AAAAAQ==")
    target = begin(lake)
    unknown = send(lake, target, 1, LAST)
    lake.catalog.completions.complete(target, [replace(unknown, checksum=checksum)])
    target = begin(lake, Scheme("crc32", ChecksumType.FULL_OBJECT))
    part = send(lake, target, 1, b"")
    for wrong in (other, Checksum("crc32c", "AAAAAA==")):
        with pytest.raises(PartMissing):
            lake.catalog.completions.complete(target, [replace(part, checksum=wrong)])
    stats = lake.catalog.completions.complete(target, [replace(part, checksum=checksum)])
    assert checksum_of(stats.reserved) == checksum


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
def test_the_checksum_of_an_object_follows_from_its_parts(lake: Lake, scheme: Scheme) -> None:
    target = begin(lake, scheme)
    named = send_all(lake, target)
    digest = ALGORITHMS[scheme.algorithm]()
    if scheme.type is ChecksumType.FULL_OBJECT:
        digest.update(FIRST + LAST)
        expected = Checksum.of(scheme.algorithm, digest.digest())
    else:
        for body in (FIRST, LAST):
            part = ALGORITHMS[scheme.algorithm]()
            part.update(body)
            digest.update(part.digest())
        bare = Checksum.of(scheme.algorithm, digest.digest())
        expected = bare._replace(value=f"{bare.value}-2")
    assert expected.type is scheme.type
    complete = partial(lake.catalog.completions.complete, target, named)
    wrong = expected._replace(value="B" + expected.value[1:])
    assert wrong != expected
    other_type = next(each for each in ChecksumType if each is not scheme.type)
    with pytest.raises(BadDigest):
        complete(whole=wrong)
    with pytest.raises(BadDigest):
        complete(whole=expected, whole_type=other_type)
    with pytest.raises(ChecksumUnknown):
        complete(whole=Checksum("unheard of", "AAAAAA=="))
    # It is open as before, and nothing is visible.
    with pytest.raises(EntryNotFound):
        lake.catalog.objects.stat(REPOSITORY, "main", PATH)
    stats = complete(whole=expected, whole_type=scheme.type)
    assert checksum_of(stats.reserved) == expected
    # Repeats are answered the same, and are held to the same.
    assert complete() == complete(whole=expected) == stats
    # minio-go sends a composite checksum without the number of parts.
    assert complete(whole=expected._replace(value=expected.value.partition("-")[0])) == stats
    with pytest.raises(BadDigest):
        complete(whole=wrong)


def test_a_checksum_that_only_the_last_request_names_is_checked_if_it_can_be(lake: Lake) -> None:
    target = begin(lake)
    named = send_all(lake, target)
    whole = Checksum("crc32", "AAAAAA==")
    with pytest.raises(ChecksumUnknown):
        lake.catalog.completions.complete(target, named, whole=whole)
    proof = _Proof(Checksum("crc32", "AAAAAA=="))
    part = lake.catalog.multiparts.put_part(target, 1, [b""], size=0, proof=proof)
    named = [NamedPart(1, part.md5)]
    complete = partial(lake.catalog.completions.complete, target, named)
    with pytest.raises(ChecksumUnknown):
        complete(whole=Checksum("crc32c", "AAAAAA=="))
    with pytest.raises(BadDigest):
        complete(whole=whole, whole_type=ChecksumType.COMPOSITE)
    stats = complete(whole=whole)
    assert checksum_of(stats.reserved) == whole


def test_records_of_before_checksums_were_kept(lake: Lake) -> None:
    """A part that another version stored has none: then the object has none, or is refused."""
    target = begin(lake, Scheme("crc32", ChecksumType.FULL_OBJECT))
    named = send_all(lake, target)
    parts = Records(lake.store, MULTIPART_PARTS, lake.repository.partition)
    for record in list(parts.scan()):
        record.message.ClearField("checksum")
        parts.set(record.name, record.message)
    with pytest.raises(ChecksumUnknown):
        lake.catalog.completions.complete(target, named, whole=Checksum("crc32", "AAAAAA=="))
    stats = lake.catalog.completions.complete(target, named)
    assert checksum_of(stats.reserved) is None


def test_conditions(lake: Lake) -> None:
    target = begin(lake)
    named = send_all(lake, target)
    lake.upload(PATH, "there")
    with pytest.raises(PreconditionFailed):
        lake.catalog.completions.complete(target, named, condition=if_absent)
    assert lake.text("main", PATH) == "there"
    lake.catalog.objects.delete(REPOSITORY, MAIN, PATH)
    lake.catalog.completions.complete(target, named, condition=if_absent)
    assert lake.text("main", PATH) == (FIRST + LAST).decode()


def test_a_completion_on_a_condition_is_repeated_after_a_lost_reply(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry is there, and the record does not say so yet."""
    target = begin(lake)
    named = send_all(lake, target)

    def lose(*_args: object) -> bool:
        raise StoreUnavailable("the process died here")

    with monkeypatch.context() as patch:
        patch.setattr(MultipartRecords, "record_staged", lose)
        with pytest.raises(StoreUnavailable):
            lake.catalog.completions.complete(target, named, condition=if_absent)
    assert lake.text("main", PATH) == (FIRST + LAST).decode()
    lake.catalog.completions.complete(target, named, condition=if_absent)
    assert lake.text("main", PATH) == (FIRST + LAST).decode()


def test_uploads_go_to_branches_that_can_be_written(lake: Lake) -> None:
    with pytest.raises(BranchNotFound):
        lake.catalog.multiparts.create(REPOSITORY, BranchID("none"), PATH)
    target = begin(lake)
    named = send_all(lake, target)
    lake.engine.protection.set(lake.repository, ["main"])
    with pytest.raises(Protected):
        lake.catalog.completions.complete(target, named)
    with pytest.raises(Protected):
        begin(lake)


def test_aborting_leaves_nothing(lake: Lake) -> None:
    target = begin(lake)
    send_all(lake, target)
    opened = list(lake.catalog.multiparts.list_open(REPOSITORY))
    assert [(each.id, each.branch, each.path) for each in opened] == [
        (target.upload_id, MAIN, PATH)
    ]
    lake.catalog.multiparts.abort(target)
    assert records(lake) == (0, 0)
    assert list(lake.block.list_uploads(lake.repository.namespace)) == []
    with pytest.raises(MultipartNotFound):
        lake.catalog.multiparts.abort(target)


def test_expired_multipart_uploads_are_removed(lake: Lake) -> None:
    target = begin(lake)
    send_all(lake, target)
    clean = lake.reclaim.expired.multiparts
    lake.clock.ahead_seconds = lake.settings.multipart_life_seconds - 60
    assert clean(lake.repository) == 0
    lake.clock.ahead_seconds = lake.settings.multipart_life_seconds + 600
    assert clean(lake.repository) == 1
    assert records(lake) == (0, 0)
    assert list(lake.block.list_uploads(lake.repository.namespace)) == []


def test_an_old_upload_is_completed_and_its_record_stays_for_repeats(lake: Lake) -> None:
    target = begin(lake)
    named = send_all(lake, target)
    lake.clock.ahead_seconds = lake.settings.multipart_life_seconds - 60
    lake.catalog.completions.complete(target, named)
    assert lake.reclaim.expired.multiparts(lake.repository) == 0
    lake.catalog.completions.complete(target, named)
    lake.clock.ahead_seconds += lake.settings.link_life_seconds + 600
    assert lake.reclaim.expired.multiparts(lake.repository) == 1
    assert lake.text("main", PATH) == (FIRST + LAST).decode()
