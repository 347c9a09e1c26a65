import pytest

from lakebed.base.errors import BrokenDriver
from lakebed.base.plugins import find_driver, is_registered
from tests.kit.drivers import RECORDS, Packages


def test_a_driver_is_found_in_its_group_only(packages: Packages) -> None:
    packages.install("one", RECORDS)
    module = find_driver("lakebed.kv", "shelf")
    assert module is not None
    assert module.__name__ == "one"
    assert is_registered("lakebed.kv", "shelf")
    assert find_driver("lakebed.kv", "other") is None
    assert find_driver("lakebed.block", "shelf") is None
    assert not is_registered("lakebed.block", "shelf")


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        (
            "import no_such_library",
            "shelf:// of the package one: No module named 'no_such_library'",
        ),
        (
            "open_driver = 1",
            "package one has no function open_driver: one must be a module with it",
        ),
    ],
)
def test_a_broken_driver_is_named(packages: Packages, source: str, complaint: str) -> None:
    packages.install("one", source)
    with pytest.raises(BrokenDriver, match=complaint):
        find_driver("lakebed.kv", "shelf")


def test_two_packages_cannot_have_one_scheme(packages: Packages) -> None:
    packages.install("one", RECORDS)
    packages.install("two", RECORDS)
    with pytest.raises(BrokenDriver, match="one and two register a driver for shelf://: uninstall"):
        find_driver("lakebed.kv", "shelf")
