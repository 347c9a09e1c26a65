"""Multipart uploads under the simulator: every seed holds, a death at any step, broken rules."""

from functools import partial
from unittest.mock import patch

import pytest
from google.protobuf.message import Message

from lakebed.block.drivers import memory
from lakebed.kv import Predicate, Version
from lakebed.kv.records import Records
from lakebed.lake import records_pb2 as pb
from lakebed.lake.keys import copy_of
from lakebed.lake.multipart import complete as completions
from lakebed.lake.multipart.complete import Completions
from lakebed.lake.multipart.records import MultipartRecords, UploadRecord
from lakebed.testing.simulation.explore import first_failure
from tests.kit.rounds import rounds
from tests.simulation import multiparts
from tests.simulation.kills import KillsAt
from tests.simulation.multiparts import SAME, abort, begin, check, check_repeats, complete
from tests.simulation.objects import CatalogWorld


@pytest.mark.parametrize(
    ("name", "seeds"),
    [
        ("parts", rounds(100, long=18_000, fast=20)),
        ("parts_collected", rounds(8, long=1_200, fast=2)),
        ("presigned", rounds(100, long=9_000, fast=10)),
        ("presigned_collected", rounds(10, long=600, fast=1)),
    ],
)
def test_every_seed_holds(name: str, seeds: int) -> None:
    assert first_failure(f"tests.simulation.multiparts:{name}", range(seeds)) is None


@pytest.mark.slow
def test_the_scenarios_reach_what_they_are_about() -> None:
    uploads = [multiparts.parts_hold(seed) for seed in range(100)]
    assert sum(len(upload.completed) for upload in uploads) > 50
    assert sum(upload.refused for upload in uploads) > 50
    for happened in ("aborted", "overwritten", "cleaned"):
        assert sum(getattr(upload, happened) for upload in uploads) > 4


@pytest.mark.slow
def test_parts_are_sent_by_url_in_time_and_late() -> None:
    uploads = [multiparts.parts_hold(seed, presigned=True) for seed in range(50)]
    assert sum(len(upload.completed) for upload in uploads) > 25
    assert sum(upload.refused for upload in uploads) > 20
    assert sum(upload.sent_late for upload in uploads) > 5
    assert any(upload.aborted for upload in uploads)


# One death at every step of a completion


def die_and_repeat(
    at: int, *, after: bool, aborting: bool, presigned: bool
) -> tuple[multiparts.Upload, bool]:
    """Let a completion die at a call, and others come after it; return whether it was so."""
    simulation = KillsAt(at, after=after)
    upload = begin(CatalogWorld(simulation), presigned=presigned)
    for name in ["victim", "aborter", "repeat"] if aborting else ["victim", "repeat"]:
        process = upload.world.process(name)
        if name == "aborter":
            process.actor.start(partial(abort, upload, process))
        else:
            process.actor.start(partial(complete, upload, process, SAME))
        simulation.run()
    check(upload)
    check_repeats(upload)
    return upload, simulation.calls >= at


@pytest.mark.parametrize("presigned", [False, True], ids=["by-s3", "by-url"])
@pytest.mark.parametrize("aborting", [False, True], ids=["repeated", "aborted"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_completion_that_dies_at_any_step(
    *, after: bool, aborting: bool, presigned: bool
) -> None:
    deaths = aborts = 0
    with patch.object(completions, "PART_BYTES_MIN", 5):
        for at in range(1, 100):
            upload, died = die_and_repeat(at, after=after, aborting=aborting, presigned=presigned)
            if not died:
                break
            deaths += 1
            aborts += upload.aborted
            assert upload.aborted or len(upload.completed) == 1
    assert 8 < deaths < 99
    # Whoever aborts before the decision is heard; later, it is too late.
    assert (0 < aborts < deaths) == aborting


# Broken rules


def fails(scenario: str, *, seeds: int, first: int = 0) -> bool:
    """Whether a seed fails; of what is rarely found, `first` says where to begin."""
    tried = range(first, first + seeds)
    return first_failure(f"tests.simulation.multiparts:{scenario}", tried) is not None


def test_decisions_over_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    set_if = Records.set_if

    def overwrite(
        self: Records[Message], name: bytes, message: Message, predicate: Predicate
    ) -> Version:
        if isinstance(message, pb.MultipartUpload) and message.HasField("entry"):
            return self.set(name, message)
        return set_if(self, name, message, predicate)

    monkeypatch.setattr(Records, "set_if", overwrite)
    assert fails("parts", seeds=600)


def test_parts_that_are_joined_as_this_request_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decision of another is taken for one's own."""
    decide = Completions._decide

    def own(self: Completions, *arguments: object) -> UploadRecord:
        record: UploadRecord = decide(self, *arguments)  # type: ignore[arg-type]
        mine = copy_of(record.message)
        mine.entry.entry.checksum = arguments[2].checksum  # type: ignore[attr-defined]
        return UploadRecord(record.name, mine, record.predicate)

    monkeypatch.setattr(Completions, "_decide", own)
    assert fails("parts", seeds=600)


def test_a_storage_that_joins_whatever_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that came by a URL after the decision are taken for those decided on."""
    monkeypatch.setattr(memory, "check_parts", lambda _named, _stored: None)
    assert fails("presigned", seeds=600)


def test_acknowledging_what_nothing_protected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MultipartRecords, "is_current", lambda _self, _decided: True)
    assert fails("parts_collected", seeds=400, first=56)


def test_forgetting_that_an_object_was_staged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MultipartRecords, "record_staged", lambda _self, _decided: True)
    assert fails("parts", seeds=600)


def test_an_abort_whatever_was_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MultipartRecords, "find_open", MultipartRecords.find)
    assert fails("parts", seeds=600)
