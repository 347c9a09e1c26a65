"""What all wrappers have in common."""

from lakebed.kv.store import Store


class WrappedStore(Store):
    """A store around a store, with the same name and limits, closed together."""

    def __init__(self, inner: Store) -> None:
        self.name = inner.name
        self.limits = inner.limits
        self.shared_between_processes = inner.shared_between_processes
        self.guards_writes = inner.guards_writes
        self._inner = inner

    def close(self) -> None:
        self._inner.close()
