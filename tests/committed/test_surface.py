"""Public names and error trees: a change to them is a visible change."""

import inspect

import lakebed.formats
import lakebed.formats.errors
import lakebed.graveler.committed
import lakebed.graveler.errors
from lakebed.errors import LakebedError


def test_the_public_names_of_committed() -> None:
    assert sorted(lakebed.graveler.committed.__all__) == [
        "Applied",
        "Breaks",
        "CONFLICT_SCHEMA",
        "Cache",
        "ChangeType",
        "Committed",
        "CommonPrefix",
        "Counters",
        "DIFF_SCHEMA",
        "DiffEntry",
        "DiskCache",
        "Page",
        "Query",
        "Strategy",
        "Summary",
    ]


def test_the_public_names_of_formats() -> None:
    assert sorted(lakebed.formats.__all__) == [
        "AddressType",
        "CHANGE_SCHEMA",
        "DamagedFile",
        "ENTRY_SCHEMA",
        "Entry",
        "FORMAT_VERSION",
        "ForeignFile",
        "FormatError",
        "FormatTooNew",
        "InvalidEntries",
        "METARANGE_SCHEMA",
        "MetaRange",
        "MetaRangeID",
        "RangeID",
        "RangeRef",
        "conform_entries",
        "decode_metarange",
        "decode_range",
        "encode_metarange",
        "encode_range",
        "entries_of",
        "entries_table",
        "entry_at",
        "metarange_id",
        "metarange_path",
        "metarange_table",
        "range_id",
        "range_path",
    ]


def kinds(module: object) -> dict[str, tuple[str, str]]:
    """Return each error of a module with its kind and its first parent."""
    return {
        name: (error.kind, error.__bases__[0].__name__)
        for name, error in inspect.getmembers(module, inspect.isclass)
        if issubclass(error, LakebedError) and error is not LakebedError
    }


def test_the_errors() -> None:
    assert kinds(lakebed.formats.errors) == {
        "FormatError": ("format", "LakebedError"),
        "DamagedFile": ("damaged_file", "FormatError"),
        "ForeignFile": ("foreign_file", "FormatError"),
        "FormatTooNew": ("format_too_new", "ForeignFile"),
        "InvalidEntries": ("invalid_entries", "FormatError"),
    }
    assert kinds(lakebed.graveler.errors) == {
        "GravelerError": ("graveler", "LakebedError"),
        "EntryNotFound": ("entry_not_found", "GravelerError"),
        "MissingFile": ("missing_file", "GravelerError"),
        "UnsortedEntries": ("unsorted_entries", "GravelerError"),
        "MergeConflict": ("merge_conflict", "GravelerError"),
    }
    assert str(lakebed.graveler.errors.EntryNotFound(b"a")) == "no entry b'a'"
