"""What became of the runs of garbage collection, for everybody who may see the repository.

The files of a run tell (see `lakebed.formats.gc_state`): a summary is written at the end of a run,
a note where it ended early. A run with neither is under way, or has died. Nobody can tell which for
certain; a run that was overtaken by a later one, or has left nothing for a day, counts as dead.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from lakebed.block import BlockStore, ObjectNotFound
from lakebed.engine.engine import Engine
from lakebed.engine.model import Repository, RepositoryID
from lakebed.formats.documents import load_json
from lakebed.formats.gc_files import RUN_NAME, GCRunID, decode_run
from lakebed.formats.gc_state import REFUSAL_NAME, SUMMARY_NAME
from lakebed.formats.layout import gc_path, gc_runs_folder
from lakebed.runtime import Runtime
from lakebed.times import now_us, to_datetime
from lakebed.tracing import traced

_TIME_DIGITS: Final = 16
_LONGEST_US: Final = 24 * 3600 * 1_000_000


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run, and what became of it."""

    id: GCRunID
    began: datetime
    state: str
    """``done``, ``incomplete`` (some objects could not be deleted, or it ended while it deleted),
    ``refused`` (nothing was deleted), ``running`` or ``died``."""
    message: str
    """Why it ended early."""
    summary: dict[str, Any] | None
    """Its figures, if it came to its end."""


class GCRuns:
    """The runs of all repositories."""

    def __init__(self, engine: Engine, block: BlockStore, runtime: Runtime) -> None:
        self._engine = engine
        self._block = block
        self._runtime = runtime

    @traced("catalog.list_gc_runs")
    def list(self, repository_id: RepositoryID, *, after: str = "") -> Iterator[RunInfo]:
        """Iterate over the runs of a repository whose files are kept, the oldest first.

        Raises:
            RepositoryNotFound: There is no such repository.
            DamagedFile: A file does not say what became of a run.
            BlockError: The storage refused or failed.
        """
        repository = self._engine.repositories.get(repository_id)
        folder = repository.namespace.folder(gc_runs_folder(repository.unique_id))
        names = sorted(name for name in self._block.list_folders(folder) if _is_run(name))
        last = next((each for each in reversed(names) if self._collects(repository, each)), "")
        wanted = [GCRunID(name) for name in names if name > after]
        found = (self._look(repository, run_id, is_last=run_id == last) for run_id in wanted)
        return (run for run in found if run is not None)

    def _look(self, repository: Repository, run_id: GCRunID, *, is_last: bool) -> RunInfo | None:
        """Return what became of a run; None if it only wrote down commits."""
        began_us = int(run_id[:_TIME_DIGITS], 16)
        began = to_datetime(began_us)
        summary = self._read(repository, run_id, SUMMARY_NAME)
        if summary is not None:
            state = "done" if summary.get("success") else "incomplete"
            return RunInfo(run_id, began, state, "", summary)
        note = self._read(repository, run_id, REFUSAL_NAME)
        if note is not None:
            state = "incomplete" if note.get("has_begun") else "refused"
            return RunInfo(run_id, began, state, str(note.get("message", "")), None)
        if not self._collects(repository, run_id):
            return None
        is_recent = now_us(self._runtime) - began_us < _LONGEST_US
        return RunInfo(run_id, began, "running" if is_last and is_recent else "died", "", None)

    def _collects(self, repository: Repository, name: str) -> bool:
        """Whether a run may delete. Clients of lakeFS also ask for the commits alone."""
        address = repository.namespace.address(
            gc_path(repository.unique_id, GCRunID(name), RUN_NAME)
        )
        try:
            data = self._block.read(address)
        except ObjectNotFound:
            return True  # thinned out, or just begun
        return decode_run(data, GCRunID(name), file=str(address)).with_uploads

    def _read(self, repository: Repository, run_id: GCRunID, name: str) -> dict[str, Any] | None:
        address = repository.namespace.address(gc_path(repository.unique_id, run_id, name))
        try:
            data = self._block.read(address)
        except ObjectNotFound:
            return None
        found: dict[str, Any] = load_json(data, file=str(address))
        return found


def _is_run(name: str) -> bool:
    digits = name[:_TIME_DIGITS]
    return len(digits) == _TIME_DIGITS and set(digits) <= set("0123456789abcdef")
