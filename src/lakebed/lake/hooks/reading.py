"""Finding and reading the action files of a commit.

Most repositories have none. That costs one look into one range, which whoever commits has in
memory, and is remembered for the content.
"""

from typing import Final

from lakebed.base.ids import UniqueID
from lakebed.base.lru import LRU
from lakebed.base.runtime import Runtime
from lakebed.engine.committed import EntryQuery
from lakebed.engine.engine import Engine
from lakebed.engine.errors import EntryNotFound
from lakebed.engine.model import Repository
from lakebed.formats import Entry, MetaRangeID
from lakebed.lake.catalog import Catalog
from lakebed.lake.hooks.errors import InvalidAction
from lakebed.lake.hooks.files import FILE_BYTES_MAX, FOLDER, ActionFile, check_names, parse_action
from lakebed.lake.pins import with_pin

FILES_MAX: Final = 1000
"""The largest number of action files, and of folders beside them."""
_REMEMBERED: Final = 10_000


class ActionReader:
    """Reads the action files of all repositories; one for a process."""

    def __init__(self, engine: Engine, catalog: Catalog, runtime: Runtime) -> None:
        self._engine = engine
        self._catalog = catalog
        # What is known to have no action files. It never changes.
        self._without: LRU[tuple[UniqueID, MetaRangeID], bool] = LRU(runtime, cost_max=_REMEMBERED)

    def read(self, repository: Repository, metarange_id: MetaRangeID) -> list[ActionFile]:
        """Return all actions of a content, in order of their files' paths.

        Raises:
            InvalidAction: A file cannot be used, or two actions have one name.
            BlockError, CatalogError: A file cannot be read.
        """
        entries = self._find(repository, metarange_id)
        actions = [self._parse(repository, entry) for entry in entries]
        if actions:
            check_names(actions)
        return actions

    def have_equal_scripts(
        self, repository: Repository, action: ActionFile, left: MetaRangeID, right: MetaRangeID
    ) -> bool:
        """Whether the scripts that an action names are the same objects in two contents."""
        committed = self._engine.committed(repository)

        def script(metarange_id: MetaRangeID, path: str) -> Entry | None:
            try:
                return committed.get(metarange_id, path.encode())
            except EntryNotFound:
                return None

        paths = [hook.properties.get("script_path") for hook in action.hooks]
        return all(script(left, path) == script(right, path) for path in paths if path)

    def _find(self, repository: Repository, metarange_id: MetaRangeID) -> list[Entry]:
        known = repository.unique_id, metarange_id
        if self._without.get(known):
            return []
        if not self._engine.committed(repository).has_below(metarange_id, FOLDER.encode()):
            self._without.put(known, True)
            return []
        query = EntryQuery(prefix=FOLDER.encode(), delimiter=b"/", amount=FILES_MAX + 1)
        page = self._engine.committed(repository).list(metarange_id, query)
        if len(page.items) > FILES_MAX:
            # Also if most are folders: those behind them would not be read, and not be obeyed.
            raise InvalidAction(FOLDER, f"there are more than {FILES_MAX} files and folders in it")
        found = [item for item in page.items if isinstance(item, Entry)]
        return [entry for entry in found if entry.key != FOLDER.encode()]

    def _parse(self, repository: Repository, entry: Entry) -> ActionFile:
        path = entry.key.decode(errors="replace")
        if entry.size > FILE_BYTES_MAX:
            raise InvalidAction(path, f"it has {entry.size} bytes, and may have {FILE_BYTES_MAX}")
        with self._catalog.objects.read(with_pin(repository, entry)) as stream:
            return parse_action(path, b"".join(stream))
