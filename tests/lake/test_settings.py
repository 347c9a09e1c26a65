"""Times that must agree, and addresses that carry them."""

from dataclasses import replace

import pytest

from lakebed.base.runtime import UniqueID
from lakebed.block import Namespace
from lakebed.engine.model import BranchID, Repository, RepositoryID
from lakebed.engine.settings import EngineSettings
from lakebed.formats.object_paths import ObjectPath, partition_made_us
from lakebed.lake.errors import InvalidSettings
from lakebed.lake.settings import CatalogSettings
from lakebed.lake.uploads import Addresses
from tests.kit.lake import TurnableClock

ENGINE = EngineSettings()
DEFAULTS = CatalogSettings()
WHERE = Repository(
    id=RepositoryID("lake"),
    unique_id=UniqueID("ab12"),
    namespace=Namespace.parse("mem://lake/x"),
    default_branch=BranchID("main"),
    created_us=0,
    read_only=False,
    metadata={},
)


def test_the_defaults_agree() -> None:
    DEFAULTS.check(ENGINE)


@pytest.mark.parametrize(
    ("changes", "engine", "names"),
    [
        ({"link_life_seconds": 43201}, ENGINE, ("min_age_seconds", "link_life_seconds")),
        ({"presign_life_seconds": 43201}, ENGINE, ("min_age_seconds", "presign_life_seconds")),
        ({"copy_window_seconds": 43201}, ENGINE, ("min_age_seconds", "copy_window_seconds")),
        ({"min_age_seconds": 1199}, ENGINE, ("min_age_seconds", "link_life_seconds")),
        (
            {"longest_request_seconds": 901},
            ENGINE,
            ("grace_seconds", "longest_request_seconds"),
        ),
        ({}, EngineSettings(scan_limit_seconds=1801), ("gap_seconds", "scan_limit_seconds")),
        ({"gap_seconds": 1199}, ENGINE, ("gap_seconds", "scan_limit_seconds")),
        ({"skew_seconds": 3001}, ENGINE, ("gap_seconds", "skew_seconds")),
        ({}, EngineSettings(grace_seconds=600), ("grace_seconds", "longest_request_seconds")),
        ({"skew_seconds": 0}, ENGINE, ("skew_seconds", "above 0")),
    ],
)
def test_settings_that_contradict_each_other(
    changes: dict[str, float], engine: EngineSettings, names: tuple[str, str]
) -> None:
    with pytest.raises(InvalidSettings) as caught:
        replace(DEFAULTS, **changes).check(engine)  # type: ignore[arg-type]
    assert all(name in str(caught.value) for name in names)


def test_bounds_themselves_are_allowed() -> None:
    half = DEFAULTS.min_age_seconds / 2
    engine = EngineSettings(scan_limit_seconds=1800)
    replace(DEFAULTS, link_life_seconds=half, copy_window_seconds=half).check(engine)


def test_seconds_will_do_for_tests() -> None:
    CatalogSettings(
        link_life_seconds=1,
        presign_life_seconds=1,
        longest_request_seconds=1,
        copy_window_seconds=1,
        min_age_seconds=2,
        gap_seconds=1,
        skew_seconds=0.5,
    ).check(EngineSettings(grace_seconds=2, scan_limit_seconds=0.5))


@pytest.mark.parametrize("multipart_life", [DEFAULTS.multipart_life_seconds, 1.0])
def test_a_partition_is_open_until_the_last_object_can_have_come(multipart_life: float) -> None:
    settings = replace(DEFAULTS, multipart_life_seconds=multipart_life)
    issued = settings.partition_life_seconds
    written = issued + max(multipart_life, settings.min_age_seconds / 2)
    # By the clock of one server; another one tells when it is over.
    assert settings.partition_open_seconds >= written + settings.skew_seconds


def test_addresses_can_be_taken_apart() -> None:
    clock = TurnableClock()
    issued = Addresses(clock, DEFAULTS).issue(WHERE, BranchID("main")).path
    assert ObjectPath.parse(str(issued)) == issued
    assert issued.issued_us / 1e6 == pytest.approx(clock.now(), abs=5)
    assert issued.made_us / 1e6 == pytest.approx(clock.now(), abs=5)
    assert partition_made_us(issued.partition) == issued.made_us
    other = Addresses(clock, DEFAULTS).issue(WHERE, BranchID("main")).path
    assert (other.partition, other.uid) != (issued.partition, issued.uid)


@pytest.mark.parametrize("cut", ["repos/", "branches/", "-", "main/"])
def test_foreign_addresses(cut: str) -> None:
    issued = str(Addresses(TurnableClock(), DEFAULTS).issue(WHERE, BranchID("main")).path)
    assert ObjectPath.parse(issued.replace(cut, "", 1)) is None
    assert ObjectPath.parse(issued + "0") is None
    assert partition_made_us("x") is None


def test_partitions_sort_newest_first_and_are_replaced_in_time() -> None:
    clock = TurnableClock()
    addresses = Addresses(clock, DEFAULTS)
    seen: list[str] = []
    for _ in range(4):
        clock.ahead_seconds += DEFAULTS.partition_life_seconds / 2
        seen.append(addresses.issue(WHERE, BranchID("main")).path.partition)
    assert seen[0] == seen[1] != seen[2]
    assert seen[2] < seen[0]


def test_a_clock_that_is_set_back_makes_a_new_partition() -> None:
    clock = TurnableClock()
    addresses = Addresses(clock, DEFAULTS)
    first = addresses.issue(WHERE, BranchID("main")).path
    clock.ahead_seconds -= 1000
    second = addresses.issue(WHERE, BranchID("main")).path
    assert second.partition != first.partition
    assert second.made_us / 1e6 <= clock.now()


def test_partitions_are_replaced_when_they_are_full() -> None:
    addresses = Addresses(TurnableClock(), replace(DEFAULTS, partition_objects_max=3))
    partitions = [addresses.issue(WHERE, BranchID("main")).path.partition for _ in range(7)]
    assert [partitions.count(each) for each in dict.fromkeys(partitions)] == [3, 3, 1]


def test_a_forked_process_takes_its_own_partition() -> None:
    process_ids = iter([1, 1, 1, 2, 2, 2, 2])
    addresses = Addresses(TurnableClock(), DEFAULTS, process_id=lambda: next(process_ids))
    partitions = [addresses.issue(WHERE, BranchID("main")).path.partition for _ in range(4)]
    assert [partitions.count(each) for each in dict.fromkeys(partitions)] == [3, 1]
