"""Where Lakebed's own files lie below the storage namespace of a repository: the one definition.

    _lakebed/owner                                      whose the namespace is
    _lakebed/ranges/<id>.parquet                        entries, sorted by key
    _lakebed/metaranges/<id>.parquet                    the ranges of one commit
    _lakebed/refs/<dump id>/<file>                      a dump of all branches, tags and commits
    _lakebed/gc/<repository uid>/state.json             what the next run of garbage collection uses
    _lakebed/gc/<repository uid>/runs/<run id>/<file>   what one run read and found
    _lakebed/gc/<repository uid>/expired/<file>         commits that had expired when a run began
    _lakebed/gc/<repository uid>/marks/<00 to ff>       proof that a server uses the same storage
    _lakebed/gc/<repository uid>/checks/<nonce>         a file that ``lakebed gc check`` writes
    _lakebed/purges/<purge id>/<content id>.parquet     which objects were purged, by whom and why
    _lakebed/imports/<import id>/listing/<file>         what an import on Spark found
    _lakebed/symlinks/<branch>/<folder>/symlink.txt     lists of addresses, for Hive

All paths are relative to the namespace. Functions named ``…_folder`` return paths without a slash
at the end.

`Owner` is the file that says whose a namespace is: which installation's, which repository's. A
writer and a collector compare it with what they believe themselves to be: a repository that was
deleted and made again is another one.
"""

import json
from dataclasses import asdict, dataclass
from typing import Final

from lakebed.formats.documents import load_json, read_record
from lakebed.formats.errors import ForeignFile, FormatTooNew
from lakebed.formats.gc_files import GCMark, GCRunID
from lakebed.formats.metaranges import MetaRangeID, RangeID
from lakebed.formats.refs import DumpID

_ROOT: Final = "_lakebed"
LAKEBED_FOLDER: Final = _ROOT

OWNER_PATH: Final = f"{_ROOT}/owner"
METARANGES_FOLDER: Final = f"{_ROOT}/metaranges"


def range_path(range_id: RangeID) -> str:
    """Where a range lies."""
    return f"{_ROOT}/ranges/{range_id}.parquet"


def metarange_path(metarange_id: MetaRangeID) -> str:
    """Where a metarange lies."""
    return f"{METARANGES_FOLDER}/{metarange_id}.parquet"


def dump_path(dump_id: DumpID, name: str) -> str:
    """Where a file of a dump lies."""
    return f"{_ROOT}/refs/{dump_id}/{name}"


def state_path(unique_id: str) -> str:
    """Where the state of garbage collection of a repository lies."""
    return f"{_gc_folder(unique_id)}/state.json"


def gc_runs_folder(unique_id: str) -> str:
    """Where the runs of garbage collection of a repository lie."""
    return f"{_gc_folder(unique_id)}/runs"


def gc_run_folder(unique_id: str, run_id: GCRunID) -> str:
    """Where the files of one run lie."""
    return f"{gc_runs_folder(unique_id)}/{run_id}"


def gc_path(unique_id: str, run_id: GCRunID, name: str) -> str:
    """Where a file of a run lies."""
    return f"{gc_run_folder(unique_id, run_id)}/{name}"


def mark_path(mark: GCMark) -> str:
    """Where a mark lies: at one of 256 places, which take turns."""
    return f"{_gc_folder(mark.unique_id)}/marks/{mark.nonce[:2]}"


def gc_expired_folder(unique_id: str) -> str:
    """Return where it is written down which commits of a repository have expired."""
    return f"{_gc_folder(unique_id)}/expired"


def gc_check_path(unique_id: str, nonce: str) -> str:
    """Where a check of the storage writes a file, which it deletes at once."""
    return f"{_gc_folder(unique_id)}/checks/{nonce}"


def hook_log_folder(run_id: str) -> str:
    """Where what the hooks of a run printed lies."""
    return f"{_ROOT}/actions/{run_id}"


def import_folder(import_id: str) -> str:
    """Where the files of an import lie while it goes on."""
    return f"{_ROOT}/imports/{import_id}"


def listing_path(import_id: str, name: str) -> str:
    """Where a file of objects that an import found lies."""
    return f"{import_folder(import_id)}/listing/{name}"


def purges_folder() -> str:
    """Where the records of what was purged lie."""
    return f"{_ROOT}/purges"


def purge_folder(purge_id: str) -> str:
    """Where the record of one purge lies."""
    return f"{purges_folder()}/{purge_id}"


def purge_path(purge_id: str, content_id: str) -> str:
    """Where it lies, with a certain content."""
    return f"{purge_folder(purge_id)}/{content_id}.parquet"


def symlinks_folder(branch: str) -> str:
    """Where the lists of addresses of a branch lie."""
    return f"{_ROOT}/symlinks/{branch}"


def _gc_folder(unique_id: str) -> str:
    return f"{_ROOT}/gc/{unique_id}"


_TYPE: Final = "lakebed owner"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a namespace is."""

    installation_id: str
    """Which Lakebed: all servers over one key-value store are one installation."""

    repository: str
    unique_id: str
    """Which creation of the repository."""


def encode_owner(owner: Owner) -> bytes:
    """Return the bytes of the file; people may read them."""
    return json.dumps({"type": _TYPE, "version": _VERSION, **asdict(owner)}, indent=2).encode()


def decode_owner(data: bytes, *, file: str) -> Owner:
    """Return what the file says.

    Raises:
        DamagedFile: It is cut off, or lacks something.
        ForeignFile: It is not such a file, or (`FormatTooNew`) is one of a newer Lakebed.
    """
    content = load_json(data, file=file)
    if not isinstance(content, dict) or content.get("type") != _TYPE:
        raise ForeignFile(file, f"does not say that it is a {_TYPE}")
    if content.get("version") != _VERSION:
        raise FormatTooNew(
            file, f"has version {content.get('version')}; this Lakebed knows {_VERSION}"
        )
    return read_record(Owner, content, file=file)
