"""Paths of Lakebed's own files in the storage namespace of a repository.

    _lakebed/owner                                      the owner of the namespace
    _lakebed/ranges/<id>.parquet                        entries, sorted by key
    _lakebed/metaranges/<id>.parquet                    the ranges of one commit
    _lakebed/refs/<dump id>/<file>                      a dump of all branches, tags and commits
    _lakebed/gc/<repository uid>/state.json             state of garbage collection
    _lakebed/gc/<repository uid>/runs/<run id>/<file>   input and findings of one run
    _lakebed/gc/<repository uid>/expired/<file>         commits that had expired when a run began
    _lakebed/gc/<repository uid>/marks/<00 to ff>       storage markers of servers
    _lakebed/gc/<repository uid>/checks/<nonce>         a file written by ``lakebed gc check``
    _lakebed/purges/<purge id>/<content id>.parquet     records of purges
    _lakebed/imports/<import id>/listing/<file>         objects found by an import on Spark
    _lakebed/symlinks/<branch>/<folder>/symlink.txt     lists of addresses, for Hive

All paths are relative to the namespace. Functions named ``…_folder`` return paths without a
trailing slash.

`Owner` is the file with the installation and the repository that own a namespace. Writers and
collectors compare it with their own: a repository deleted and created again is a different one.
"""

import json
from dataclasses import asdict, dataclass
from typing import Final

from lakebed.formats.errors import ForeignFile, FormatTooNew
from lakebed.formats.files import load_json, read_record
from lakebed.formats.gc_files import GCMarker, GCRunID
from lakebed.formats.metaranges import MetaRangeID, RangeID
from lakebed.formats.refs import DumpID

_ROOT: Final = "_lakebed"
LAKEBED_FOLDER: Final = _ROOT

OWNER_PATH: Final = f"{_ROOT}/owner"
METARANGES_FOLDER: Final = f"{_ROOT}/metaranges"


def range_path(range_id: RangeID) -> str:
    """Return the path of a range."""
    return f"{_ROOT}/ranges/{range_id}.parquet"


def metarange_path(metarange_id: MetaRangeID) -> str:
    """Return the path of a metarange."""
    return f"{METARANGES_FOLDER}/{metarange_id}.parquet"


def dump_path(dump_id: DumpID, name: str) -> str:
    """Return the path of a file of a dump."""
    return f"{_ROOT}/refs/{dump_id}/{name}"


def state_path(unique_id: str) -> str:
    """Return the path of a repository's garbage collection state."""
    return f"{_gc_folder(unique_id)}/state.json"


def gc_runs_folder(unique_id: str) -> str:
    """Return the folder of a repository's garbage collection runs."""
    return f"{_gc_folder(unique_id)}/runs"


def gc_run_folder(unique_id: str, run_id: GCRunID) -> str:
    """Return the folder of one run."""
    return f"{gc_runs_folder(unique_id)}/{run_id}"


def gc_path(unique_id: str, run_id: GCRunID, name: str) -> str:
    """Return the path of a file of a run."""
    return f"{gc_run_folder(unique_id, run_id)}/{name}"


def marker_path(mark: GCMarker) -> str:
    """Return the path of a storage marker: one of 256, at random."""
    return f"{_gc_folder(mark.unique_id)}/marks/{mark.nonce[:2]}"


def gc_expired_folder(unique_id: str) -> str:
    """Return the folder with the lists of expired commits."""
    return f"{_gc_folder(unique_id)}/expired"


def gc_check_path(unique_id: str, nonce: str) -> str:
    """Return the path of a temporary file of a storage check."""
    return f"{_gc_folder(unique_id)}/checks/{nonce}"


def hook_log_folder(run_id: str) -> str:
    """Return the folder with the output of a run's hooks."""
    return f"{_ROOT}/actions/{run_id}"


def import_folder(import_id: str) -> str:
    """Return the folder with the temporary files of an import."""
    return f"{_ROOT}/imports/{import_id}"


def listing_path(import_id: str, name: str) -> str:
    """Return the path of a file of objects found by an import."""
    return f"{import_folder(import_id)}/listing/{name}"


def purges_folder() -> str:
    """Return the folder of all purge records."""
    return f"{_ROOT}/purges"


def purge_folder(purge_id: str) -> str:
    """Return the folder of one purge's record."""
    return f"{purges_folder()}/{purge_id}"


def purge_path(purge_id: str, content_id: str) -> str:
    """Return the path of a purge's record with the given content."""
    return f"{purge_folder(purge_id)}/{content_id}.parquet"


def symlinks_folder(branch: str) -> str:
    """Return the folder with a branch's lists of addresses."""
    return f"{_ROOT}/symlinks/{branch}"


def _gc_folder(unique_id: str) -> str:
    return f"{_ROOT}/gc/{unique_id}"


_TYPE: Final = "lakebed owner"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Owner:
    """Owner of a namespace."""

    installation_id: str
    """All servers over one key-value store are one installation."""

    repository: str
    unique_id: str
    """Distinguishes repositories created under the same name."""


def encode_owner(owner: Owner) -> bytes:
    """Return the human-readable content of the file."""
    return json.dumps({"type": _TYPE, "version": _VERSION, **asdict(owner)}, indent=2).encode()


def decode_owner(data: bytes, *, file: str) -> Owner:
    """Return the owner in a file."""
    content = load_json(data, file=file)
    if not isinstance(content, dict) or content.get("type") != _TYPE:
        raise ForeignFile(file, f"is not a {_TYPE} file")
    if content.get("version") != _VERSION:
        raise FormatTooNew(
            file, f"has version {content.get('version')}; this Lakebed reads version {_VERSION}"
        )
    return read_record(Owner, content, file=file)
