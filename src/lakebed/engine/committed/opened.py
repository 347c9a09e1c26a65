"""The committed entries of each storage namespace, opened once a process."""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from lakebed.block import BlockStore, Namespace
from lakebed.engine.committed import Cache, Committed
from lakebed.runtime import Runtime

CommittedFor = Callable[[Namespace], Committed]

NAMESPACES_OPEN: Final = 1024


def committed_for(block: BlockStore, runtime: Runtime, cache: Cache) -> CommittedFor:
    """Return a function that opens a namespace, with one cache for all of them.

    An open namespace knows which ranges it has written, so the latest ones are kept.
    """

    @lru_cache(maxsize=NAMESPACES_OPEN)
    def opened(namespace: Namespace) -> Committed:
        return Committed(block, namespace, runtime, cache=cache)

    return opened
