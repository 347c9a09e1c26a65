"""Scenarios of multipart uploads: everything that can happen to one upload at the same time.

`parts`: several processes complete one upload, with the same parts and with others; parts are sent
again; someone aborts, the Cleaner comes by, others write to the path and commit. Every call may
fail, hang or kill its process.

`parts_collected`: the same with an upload that is older than garbage can get, requests that hang
for longer than records and garbage live, and a collector.

`presigned`, `presigned_collected`: the same with parts that go straight to the storage, by URLs
that know nothing of completions and aborts, at any time.

An upload may make one object at most. Whoever is told that it was completed finds it there, made
of the parts named and with their checksum, and is told the same when asking again. Nobody is told
that an upload was completed that was aborted, or that has another checksum than the one asked for.
"""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final
from unittest.mock import patch

from lakebed.base.errors import LakebedError
from lakebed.block import Address, UploadId, UploadNotFound
from lakebed.engine.staging.writer import Condition, if_absent
from lakebed.formats import Entry
from lakebed.lake.checksums import ALGORITHMS, Checksum, ChecksumType, Scheme
from lakebed.lake.entry_metadata import checksum_of
from lakebed.lake.errors import MultipartNotFound
from lakebed.lake.model import ObjectStats, physical_address
from lakebed.lake.multipart import complete as completions
from lakebed.lake.multipart.records import NamedPart, Target
from lakebed.testing.simulation.simulator import Faults, Simulation
from tests.simulation.objects import (
    DEV,
    MAIN,
    REPOSITORY,
    SETTINGS,
    CatalogWorld,
    Collector,
    CollectorLives,
    Process,
    commit,
)

PATH: Final = b"a"
BODIES: Final = {1: b"first", 2: b"second"}
OTHER: Final = b"FIRST"
"""Another part 1, of the same size: only its bytes differ from the first."""

LIFE_SECONDS: Final = 300.0
MULTIPART_SETTINGS: Final = replace(SETTINGS, multipart_life_seconds=LIFE_SECONDS)

FAULTS: Final = Faults(
    fail_before=0.03,
    fail_after=0.05,
    kill=0.01,
    stall=0.02,
    stall_seconds=100,
    skew_seconds=20,
    until_step=2000,
)
SLOW: Final = replace(FAULTS, kill=0.003, stall=0.04, stall_seconds=600, skew_seconds=0)


SCHEME: Final = Scheme("crc64nvme", ChecksumType.FULL_OBJECT)
WRONG: Final = Checksum("crc64nvme", "AAAAAAAAAAA=")
"""Matches none of the bodies."""


def named(number: int, body: bytes) -> NamedPart:
    return NamedPart(number, hashlib.md5(body).hexdigest())


def body_of(parts: list[NamedPart]) -> bytes:
    bodies = {hashlib.md5(body).hexdigest(): body for body in [*BODIES.values(), OTHER]}
    return b"".join(bodies[part.md5] for part in parts)


def checksum(body: bytes) -> Checksum:
    digest = ALGORITHMS[SCHEME.algorithm]()
    digest.update(body)
    return Checksum.of(SCHEME.algorithm, digest.digest())


SAME: Final = [named(number, body) for number, body in BODIES.items()]
CHOICES: Final = [SAME, SAME, SAME, SAME[:1], [named(1, OTHER), SAME[1]]]


@dataclass
class Told:
    """A request to complete the upload that was answered."""

    parts: list[NamedPart]
    stats: ObjectStats


@dataclass
class Upload:
    """One upload, and what actors were told of it."""

    world: CatalogWorld
    target: Target
    storage_id: UploadId
    completed: list[Told] = field(default_factory=list)
    refused: int = 0
    aborted: bool = False
    overwritten: bool = False
    """Whether anyone tried to write something else to the path."""
    cleaned: bool = False
    """Whether the Cleaner ran."""
    sent_late: int = 0
    """How many parts the storage refused, since the upload was over."""

    @property
    def is_presigned(self) -> bool:
        return self.target.address is not None

    @property
    def entries(self) -> list[Entry]:
        """All objects made from it that something names."""
        world = self.world
        found = [*world.staged(MAIN), *world.staged(DEV), *world.committed()]
        return [entry for entry in found if str(self.target.upload_id) in entry.address]


def begin(world: CatalogWorld, *, presigned: bool = False) -> Upload:
    """An upload with two parts, before anything goes wrong."""
    multiparts = world.catalog.multiparts
    scheme = None if presigned else SCHEME
    parts = 0 if presigned else None
    begun = multiparts.create(REPOSITORY, MAIN, PATH, scheme=scheme, presigned_parts=parts)
    target = Target(REPOSITORY, MAIN, PATH, begun.id, begun.address if presigned else None)
    for number, body in BODIES.items():
        if presigned:
            world.block.inner.put_part(
                begun.address, begun.storage_id, number, [body], size=len(body)
            )
        else:
            multiparts.put_part(target, number, [body], size=len(body))
    return Upload(world, target, begun.storage_id)


# What actors do


def complete(
    upload: Upload,
    process: Process,
    parts: list[NamedPart],
    condition: Condition | None = None,
    whole: Checksum | None = None,
) -> None:
    """Complete, and repeat it until there is an answer."""
    for _ in range(6):
        try:
            stats = process.catalog.completions.complete(
                upload.target, parts, whole=whole, condition=condition
            )
        except MultipartNotFound:
            upload.refused += 1
            return
        except LakebedError:
            continue
        upload.completed.append(Told(parts, stats))
        assert whole != WRONG, "a wrong checksum was accepted"
        return


def abort(upload: Upload, process: Process) -> None:
    with suppress(LakebedError):
        process.catalog.multiparts.abort(upload.target)
        upload.aborted = True


def send_again(upload: Upload, process: Process, body: bytes) -> None:
    if upload.target.address is not None:
        send_by_url(upload, process, upload.target.address, body)
        return
    with suppress(LakebedError):
        process.catalog.multiparts.put_part(upload.target, 1, [body], size=len(body))


def send_by_url(upload: Upload, process: Process, address: Address, body: bytes) -> None:
    """Send a part to the storage, past all records, at some time while the others are busy."""
    process.actor.runtime.sleep(process.world.random.random() * 2)
    storage = process.world.block.handle(process.actor)
    try:
        storage.put_part(address, upload.storage_id, 1, [body], size=len(body))
    except UploadNotFound:
        upload.sent_late += 1
    except LakebedError:
        pass


def overwrite(upload: Upload, process: Process) -> None:
    upload.overwritten = True
    with suppress(LakebedError):
        process.catalog.uploads.upload(REPOSITORY, MAIN, PATH, process.world.new_body())


def clean(upload: Upload, process: Process) -> None:
    upload.cleaned = True
    for _ in range(8):
        process.actor.runtime.sleep(process.world.random.random() * LIFE_SECONDS / 4)
        with suppress(LakebedError):
            process.reclaim.expired.multiparts(upload.world.repository)


def start(upload: Upload, name: str, *tasks: Callable[[Process], None]) -> None:
    process = upload.world.process(name)
    for task in tasks:
        process.actor.start(partial(task, process))


def start_all(upload: Upload, *, cleaning: float = 0.3) -> None:
    """Some actors of each kind."""
    random = upload.world.random

    def completing(process: Process) -> None:
        condition = random.choice([None, None, if_absent])
        parts = random.choice(CHOICES)
        right = checksum(body_of(parts))
        whole = random.choice([None, None, None, right, right, WRONG])
        whole = None if upload.is_presigned else whole
        complete(upload, process, parts, condition, whole)

    def sometimes(share: float, task: Callable[[Upload, Process], None]) -> None:
        if random.random() < share:
            start(upload, task.__name__, partial(task, upload))

    for number in range(3):
        start(upload, f"server{number}", completing)
    for number in range(random.randrange(3)):
        again = partial(send_again, upload, body=random.choice([BODIES[1], OTHER]))
        start(upload, f"sender{number}", again)
    sometimes(0.3, abort)
    sometimes(0.3, overwrite)
    sometimes(cleaning, clean)
    start(upload, "committer", commit)


# What must hold


def check(upload: Upload) -> None:
    world = upload.world
    made = {(entry.key, entry.checksum, entry.mtime) for entry in upload.entries}
    assert len(made) <= 1, f"two objects of one upload: {made}"
    assert len({told.stats.checksum for told in upload.completed}) <= 1, "two answers"
    assert not (upload.completed and upload.aborted), "completed and aborted"
    if upload.completed or upload.aborted:
        left = list(world.block.inner.list_uploads(world.repository.namespace))
        assert left == [], "the storage has an upload that is over"
    for told in upload.completed:
        check_bytes(upload, told)
    if upload.completed and not upload.overwritten:
        (shown,) = world.staged(MAIN)
        assert shown.checksum == upload.completed[0].stats.checksum, "another object is shown"


def check_bytes(upload: Upload, told: Told) -> None:
    """An object reported as completed is there, and is made of the parts named."""
    expected = body_of(told.parts)
    made = None if upload.is_presigned else checksum(expected)
    assert checksum_of(told.stats.reserved) == made
    with suppress(LakebedError):
        stored = upload.world.block.inner.read(told.stats.address)
        assert stored == expected, f"{stored!r} should be {expected!r}"
    for entry in upload.entries:
        address = physical_address(upload.world.repository.namespace, entry)
        assert upload.world.block.inner.exists(address), "acknowledged and named, but gone"


def check_repeats(upload: Upload) -> None:
    """Once someone was told that it was completed, a repeat says so and changes nothing."""
    for told in upload.completed:
        before = upload.world.staged(MAIN)
        assert upload.world.catalog.completions.complete(upload.target, told.parts) == told.stats
        assert upload.world.staged(MAIN) == before


# Scenarios


def parts_hold(seed: int, faults: Faults = FAULTS, *, presigned: bool = False) -> Upload:
    with patch.object(completions, "PART_BYTES_MIN", 5):
        world = CatalogWorld(Simulation(seed, faults, steps_max=200_000), MULTIPART_SETTINGS)
        upload = begin(world, presigned=presigned)
        start_all(upload)
        upload.world.simulation.run()
        check(upload)
        if not upload.cleaned:
            check_repeats(upload)
        return upload


def parts_collected_hold(seed: int, faults: Faults = SLOW, *, presigned: bool = False) -> Upload:
    with patch.object(completions, "PART_BYTES_MIN", 5):
        world = CatalogWorld(CollectorLives(seed, faults, steps_max=400_000), MULTIPART_SETTINGS)
        upload = begin(world, presigned=presigned)
        grow_old(upload)
        start_all(upload, cleaning=1.0)
        collector = Collector(world.process("collector"), partial(check, upload))
        collector.process.actor.start(collector.run)
        world.simulation.run()
        check(upload)
        return upload


def grow_old(upload: Upload) -> None:
    """Wait until nothing but its record protects the bytes of an upload."""
    actor = upload.world.simulation.actor("waiting")
    seconds = upload.world.random.uniform(0.7, 1.1) * LIFE_SECONDS
    actor.start(partial(actor.runtime.sleep, seconds))
    upload.world.simulation.run()


def parts(seed: int) -> None:
    parts_hold(seed)


def parts_collected(seed: int) -> None:
    parts_collected_hold(seed)


def presigned(seed: int) -> None:
    parts_hold(seed, presigned=True)


def presigned_collected(seed: int) -> None:
    parts_collected_hold(seed, presigned=True)


SCENARIOS: Final = {
    "parts": parts,
    "parts_collected": parts_collected,
    "presigned": presigned,
    "presigned_collected": presigned_collected,
}
