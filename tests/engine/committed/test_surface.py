"""Public names and error trees: a change to them is a visible change."""

import inspect

import lakebed.engine.committed
import lakebed.engine.errors
import lakebed.formats
import lakebed.formats.errors
from lakebed.base.errors import LakebedError


def test_the_public_names_of_committed() -> None:
    assert sorted(lakebed.engine.committed.__all__) == [
        "Applied",
        "Breaks",
        "CONFLICT_SCHEMA",
        "Cache",
        "ChangeCounts",
        "ChangeType",
        "Committed",
        "CommittedFor",
        "CommonPrefix",
        "Counters",
        "DIFF_SCHEMA",
        "DiffEntry",
        "EntryPage",
        "EntryQuery",
        "Folded",
        "Ingest",
        "Interval",
        "Strategy",
        "committed_for",
    ]


def test_the_public_names_of_formats() -> None:
    assert sorted(lakebed.formats.__all__) == [
        "AddressType",
        "CHANGE_SCHEMA",
        "DamagedFile",
        "DumpFile",
        "DumpID",
        "DumpManifest",
        "EMPTY_METARANGE",
        "ENTRY_SCHEMA",
        "Entry",
        "EntryRows",
        "FORMAT_VERSION",
        "ForeignFile",
        "FormatError",
        "FormatTooNew",
        "InvalidEntries",
        "MANIFEST_NAME",
        "METARANGE_SCHEMA",
        "MetaRange",
        "MetaRangeID",
        "OWNER_PATH",
        "Owner",
        "REF_SCHEMAS",
        "RangeID",
        "RangeRef",
        "RefKind",
        "conform_entries",
        "decode_manifest",
        "decode_metarange",
        "decode_owner",
        "decode_range",
        "decode_refs",
        "dump_path",
        "encode_manifest",
        "encode_metarange",
        "encode_owner",
        "encode_range",
        "encode_refs",
        "entries_of",
        "entries_table",
        "metarange_id",
        "metarange_path",
        "metarange_table",
        "range_id",
        "range_path",
        "refs_id",
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
    assert kinds(lakebed.engine.errors) == {
        "BranchNotFound": ("branch_not_found", "NotFound"),
        "DefaultBranch": ("default_branch", "EngineError"),
        "Stale": ("stale", "EngineError"),
        "CommitRefused": ("commit_refused", "EngineError"),
        "RefsLeftOut": ("refs_left_out", "EngineError"),
        "ParentNumberMissing": ("parent_number_missing", "Invalid"),
        "CommitNotFound": ("commit_not_found", "NotFound"),
        "Deleting": ("deleting", "EngineError"),
        "DirtyBranch": ("dirty_branch", "EngineError"),
        "EntryNotFound": ("entry_not_found", "NotFound"),
        "GivenUp": ("given_up", "EngineError"),
        "EngineError": ("engine", "LakebedError"),
        "Invalid": ("invalid", "EngineError"),
        "InvalidName": ("invalid_name", "Invalid"),
        "InvalidRef": ("invalid_ref", "Invalid"),
        "MergeConflict": ("merge_conflict", "EngineError"),
        "MetaRangeNotFound": ("metarange_not_found", "NotFound"),
        "MissingFile": ("missing_file", "EngineError"),
        "CommitExpired": ("commit_expired", "EngineError"),
        "TooManyExpire": ("too_many_expire", "EngineError"),
        "NamespaceTaken": ("namespace_taken", "NotUnique"),
        "NoChanges": ("no_changes", "EngineError"),
        "NotFound": ("not_found", "EngineError"),
        "NothingThere": ("nothing_there", "PreconditionFailed"),
        "NotUnique": ("not_unique", "EngineError"),
        "PreconditionFailed": ("entry_precondition_failed", "EngineError"),
        "Protected": ("protected", "EngineError"),
        "ReadOnly": ("read_only", "EngineError"),
        "RefNotFound": ("ref_not_found", "NotFound"),
        "Refused": ("refused", "EngineError"),
        "RepositoryNotFound": ("repository_not_found", "NotFound"),
        "TagNotFound": ("tag_not_found", "NotFound"),
        "TooManyTries": ("too_many_tries", "EngineError"),
        "UnsortedEntries": ("unsorted_entries", "Invalid"),
    }
    assert str(lakebed.engine.errors.EntryNotFound(b"a")) == "object not found: 'a'"
