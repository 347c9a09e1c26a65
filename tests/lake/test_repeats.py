"""A repeat of a conditional write finds its own entry and succeeds; nobody else's request does."""

import hashlib
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.errors import PreconditionFailed
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.engine.staging.writer import Condition, if_absent
from lakebed.formats import Entry
from lakebed.kv import OutcomeUnknown
from lakebed.lake.commits import HeadChanges
from lakebed.lake.entry_metadata import REQUESTS, requests_of
from lakebed.lake.model import ObjectStats
from lakebed.lake.multipart.records import NamedPart, Target
from lakebed.lake.repeats import KEPT, Invocation
from lakebed.lake.uploads import Stager
from tests.kit import staging
from tests.kit.lake import DEV, MAIN, REPOSITORY, Lake

ANN = Invocation("ann", "b3a1f7f0-9d1c-4b8e-8b53-0d5f0c6a2e11")
BODY = b"version 7"


def upload(
    lake: Lake,
    invocation: Invocation | None = ANN,
    body: bytes = BODY,
    condition: Condition = if_absent,
    branch: BranchID = MAIN,
) -> ObjectStats:
    return lake.catalog.uploads.upload(
        REPOSITORY, branch, b"log/7", [body], condition=condition, invocation=invocation
    )


def if_match(stats: ObjectStats) -> Condition:
    return lambda found: found is not None and found.checksum == stats.checksum


@pytest.mark.parametrize("committed", [False, True])
def test_a_repeat_is_answered_as_the_first_attempt_and_writes_nothing(
    lake: Lake, committed: bool
) -> None:
    first = upload(lake)
    if committed:
        HeadChanges(lake.engine).commit(
            REPOSITORY, MAIN, CommitRequest(committer="ann", message="m")
        )
    assert upload(lake) == first
    assert lake.stored() == [str(first.address)], "the bytes of the repeat are gone"
    assert lake.catalog.objects.stat(REPOSITORY, "main", b"log/7") == first
    assert first.metadata == {}


@pytest.mark.parametrize(
    "invocation",
    [
        None,
        replace(ANN, id="c4a1f7f0-9d1c-4b8e-8b53-0d5f0c6a2e11"),
        replace(ANN, principal="bob"),
    ],
    ids=["no id", "another request", "another user"],
)
@pytest.mark.parametrize("body", [BODY, b""])
def test_two_requests_with_equal_bytes_never_both_win(
    lake: Lake, invocation: Invocation | None, body: bytes
) -> None:
    upload(lake, body=body)
    with pytest.raises(PreconditionFailed):
        upload(lake, invocation, body)


def test_without_an_id_no_request_is_taken_for_a_repeat(lake: Lake) -> None:
    upload(lake, None)
    with pytest.raises(PreconditionFailed):
        upload(lake, None)
    with pytest.raises(PreconditionFailed):
        upload(lake)


def test_other_bytes_with_the_same_id_are_refused(lake: Lake) -> None:
    upload(lake)
    with pytest.raises(PreconditionFailed):
        upload(lake, body=b"version 8")
    assert lake.text("main", b"log/7") == BODY.decode()


def test_a_repeat_of_if_match_is_recognised(lake: Lake) -> None:
    before = upload(lake)
    invocation = replace(ANN, id="d" * 32)
    after = upload(lake, invocation, b"8", if_match(before))
    assert upload(lake, invocation, b"8", if_match(before)) == after
    with pytest.raises(PreconditionFailed):
        upload(lake, replace(ANN, id="e" * 32), b"8", if_match(before))


def test_a_request_whose_entry_was_replaced_on_a_condition_is_recognised(lake: Lake) -> None:
    """A client that counts must know whether its own increment was made."""
    first = upload(lake)
    stats = first
    for number in range(1, KEPT + 1):
        assert upload(lake).checksum == first.checksum
        assert lake.catalog.objects.stat(REPOSITORY, "main", b"log/7") == stats
        body = b"%d" % number
        invocation = replace(ANN, id=f"{number:032}") if number % 4 else None
        stats = upload(lake, invocation, body, if_match(stats))
    for _ in range(KEPT):
        stats = upload(lake, replace(ANN, id=uuid.uuid4().hex), b"x", if_match(stats))
    with pytest.raises(PreconditionFailed):
        upload(lake)
    kept = staging.get(lake.engine, lake.repository.id, "main", b"log/7")
    assert len(requests_of(kept)) == KEPT


def test_the_digests_taken_along_are_those_of_the_entry_that_is_replaced(lake: Lake) -> None:
    """Not those of the entry that was there when the request began, of the same bytes."""
    first = upload(lake, body=b"0")
    others = [replace(ANN, id=f"{number:032}") for number in range(3)]

    def bytes_of_the_slower() -> Iterator[bytes]:
        second = upload(lake, others[0], b"1", if_match(first))
        upload(lake, others[1], b"0", if_match(second))
        yield b"2"

    lake.catalog.uploads.upload(
        REPOSITORY,
        MAIN,
        b"log/7",
        bytes_of_the_slower(),
        condition=if_match(first),
        invocation=others[2],
    )
    repeated = upload(lake, others[0], b"1", if_match(first))
    assert repeated.checksum == hashlib.md5(b"1").hexdigest()
    assert lake.text("main", b"log/7") == "2"


@pytest.mark.parametrize("delete", [False, True])
def test_a_request_whose_entry_was_replaced_without_a_condition_is_not(
    lake: Lake, delete: bool
) -> None:
    first = upload(lake)
    after = upload(lake, replace(ANN, id="d" * 32), b"8", if_match(first))
    if delete:
        lake.catalog.objects.delete(REPOSITORY, MAIN, b"log/7")
        assert upload(lake) != first, "it is written once more"
    else:
        lake.upload(b"log/7", "plain")
        with pytest.raises(PreconditionFailed):
            upload(lake)
    with pytest.raises(PreconditionFailed):
        upload(lake, replace(ANN, id="d" * 32), b"8", if_match(after))


def test_an_entry_whose_metadata_were_set_is_still_that_of_its_request(lake: Lake) -> None:
    upload(lake)
    changed = lake.catalog.copies.set_metadata(REPOSITORY, MAIN, b"log/7", {"a": "b"})
    assert upload(lake) == changed
    with pytest.raises(PreconditionFailed):
        upload(lake, None)


def test_digests_that_make_no_sense_are_ignored(lake: Lake) -> None:
    metadata = {REQUESTS: f"{'x' * 1000},{'a' * 28}"}
    lake.catalog.uploads.upload(REPOSITORY, MAIN, b"log/7", [b"1"], metadata=metadata)
    assert requests_of(staging.get(lake.engine, lake.repository.id, "main", b"log/7")) == ["a" * 28]


def test_a_repeat_that_finds_its_entry_only_after_its_bytes_came(lake: Lake) -> None:
    """Both attempts run at once: the first is slow, and not dead."""
    stored: list[ObjectStats] = []

    def bytes_of_the_slower() -> Iterator[bytes]:
        yield BODY[:1]
        stored.append(upload(lake))
        yield BODY[1:]

    slower = lake.catalog.uploads.upload(
        REPOSITORY,
        MAIN,
        b"log/7",
        bytes_of_the_slower(),
        condition=if_absent,
        invocation=ANN,
    )
    assert [slower] == stored
    assert lake.stored() == [str(slower.address)]


def test_an_entry_goes_to_other_places_without_its_request(lake: Lake) -> None:
    upload(lake)
    assert REQUESTS in staging.get(lake.engine, lake.repository.id, "main", b"log/7").metadata
    for path, metadata in ((b"copy", None), (b"copy with metadata", {"a": "b"})):
        lake.catalog.copies.copy(
            REPOSITORY, DEV, path, source_ref="main", source_path=b"log/7", metadata=metadata
        )
        assert REQUESTS not in staging.get(lake.engine, lake.repository.id, "dev", path).metadata
    upload(lake, branch=DEV)
    lake.catalog.objects.delete(REPOSITORY, DEV, b"log/7")
    upload(lake, branch=DEV)
    assert ANN.digest(REPOSITORY, MAIN, b"a") != ANN.digest(REPOSITORY, DEV, b"a")
    assert ANN.digest(REPOSITORY, MAIN, b"a") != ANN.digest(RepositoryID("r"), MAIN, b"a")
    assert ANN.digest(REPOSITORY, MAIN, b"a") != ANN.digest(REPOSITORY, MAIN, b"b")


def test_the_request_is_no_part_of_what_the_object_is(lake: Lake) -> None:
    upload(lake)
    HeadChanges(lake.engine).commit(REPOSITORY, MAIN, CommitRequest(committer="ann", message="m"))
    before = staging.get(lake.engine, lake.repository.id, "main", b"log/7")
    lake.upload(b"log/7", BODY.decode())
    after = staging.get(lake.engine, lake.repository.id, "main", b"log/7")
    assert REQUESTS not in after.metadata
    assert after.identity == before.identity


@pytest.mark.parametrize("shared", [True, False])
def test_a_repeat_of_a_copy_is_recognised(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    lake.upload(b"a", "x")
    if not shared:
        monkeypatch.setattr(lake.catalog.copies._freshness, "may_share", lambda _issued: False)

    def copy(invocation: Invocation | None) -> ObjectStats:
        return lake.catalog.copies.copy(
            REPOSITORY,
            MAIN,
            b"b",
            source_ref="main",
            source_path=b"a",
            condition=if_absent,
            invocation=invocation,
        )

    first = copy(ANN)
    stored = lake.stored()
    assert len(stored) == (1 if shared else 2)
    assert copy(ANN) == first
    assert lake.stored() == stored
    for other in (None, replace(ANN, principal="bob")):
        with pytest.raises(PreconditionFailed):
            copy(other)


def unacknowledged(lake: Lake, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Do something whose outcome is unknown: the reply to the staged entry is lost."""
    put = Stager.put

    def lost(*args: Any, **kwargs: Any) -> object:
        put(*args, **kwargs)
        raise OutcomeUnknown("no reply")

    with monkeypatch.context() as patched:
        patched.setattr(Stager, "put", lost)
        with pytest.raises(OutcomeUnknown):
            act()


def linking(lake: Lake) -> Callable[[], ObjectStats]:
    """Upload to an address that was given out; return the call that links it."""
    given = lake.catalog.links.get_physical_address(REPOSITORY, MAIN, b"a")
    lake.block.put(given.address, [b"linked"])
    return lambda: lake.catalog.links.link(
        REPOSITORY, MAIN, b"a", given.address, checksum="c", condition=if_absent
    )


def completing(lake: Lake) -> Callable[[], ObjectStats]:
    """Upload a part; return the call that completes the upload."""
    made = lake.catalog.multiparts.create(REPOSITORY, MAIN, b"a", content_type="t/t", metadata={})
    target = Target(REPOSITORY, MAIN, b"a", made.id)
    part = lake.catalog.multiparts.put_part(target, 1, [b"part"], size=4)
    named = [NamedPart(1, part.md5)]
    return lambda: lake.catalog.completions.complete(target, named, condition=if_absent)


@pytest.mark.parametrize("begin", [linking, completing])
@pytest.mark.parametrize("committed", [False, True])
def test_a_link_and_a_completed_upload_need_no_id(
    lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
    begin: Callable[[Lake], Callable[[], ObjectStats]],
    committed: bool,
) -> None:
    """Their address was given out for one request: who names it again repeats that request."""
    act = begin(lake)
    unacknowledged(lake, monkeypatch, act)
    if committed:
        HeadChanges(lake.engine).commit(
            REPOSITORY, MAIN, CommitRequest(committer="ann", message="m")
        )
    first = lake.catalog.objects.stat(REPOSITORY, "main", b"a")
    assert act() == act() == first
    with pytest.raises(PreconditionFailed):
        begin(lake)()
    assert lake.catalog.objects.stat(REPOSITORY, "main", b"a") == first


@pytest.mark.parametrize("begin", [linking, completing])
def test_a_condition_is_judged_again_when_the_entry_is_staged(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, begin: Callable[[Lake], Callable[[], ObjectStats]]
) -> None:
    """Another writer comes between the first check and the staging of the entry."""
    act = begin(lake)
    put = Stager.put

    def overtaken(*args: Any, **kwargs: Any) -> object:
        monkeypatch.setattr(Stager, "put", put)
        lake.upload(b"a", "another writer")
        return put(*args, **kwargs)

    monkeypatch.setattr(Stager, "put", overtaken)
    with pytest.raises(PreconditionFailed):
        act()
    assert lake.text("main", b"a") == "another writer"


def test_the_condition_is_asked_about_entries_of_others(lake: Lake) -> None:
    asked: list[Entry | None] = []

    def condition(found: Entry | None) -> bool:
        asked.append(found)
        return True

    upload(lake, condition=condition)
    upload(lake, replace(ANN, principal="bob"), condition=condition)
    assert None in asked
    assert any(found is not None for found in asked)
