"""API calls of hooks in a process without a server: reading objects, such as their scripts."""

from collections.abc import Mapping

from lakebed.base.errors import LakebedError
from lakebed.engine.model import RepositoryID
from lakebed.installation.statuses import status_of
from lakebed.lake.catalog import Catalog
from lakebed.lake.hooks.events import HookEvent
from lakebed.lake.hooks.kinds import OBJECT_BYTES_MAX, Caller


class LocalHookCalls:
    """Factory of the callers for hook events."""

    def __init__(self) -> None:
        self._catalog: Catalog | None = None

    def attach(self, catalog: Catalog) -> None:
        """Set the catalog to read from."""
        self._catalog = catalog

    def caller(self, _event: HookEvent) -> Caller:
        assert self._catalog is not None, "attach() has to be called before any operation"
        return _Caller(self._catalog)


class _Caller:
    depth = 0

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def call(self, name: str, arguments: Mapping[str, object]) -> tuple[int, object]:
        if name != "get_object":
            return 501, {"message": f"lakefs.{name} needs a server"}
        objects = self._catalog.objects
        try:
            found = objects.stat(
                RepositoryID(str(arguments["repository"])),
                str(arguments["reference"]),
                str(arguments["path"]).encode(),
            )
            if found.size > OBJECT_BYTES_MAX:
                return 413, {"message": f"the object is larger than {OBJECT_BYTES_MAX} bytes"}
            with objects.read(found) as stream:
                return 200, b"".join(stream)
        except LakebedError as error:
            return status_of(error), {"message": str(error)}
