"""Sizes of the conformance suite of key-value stores, reduced for slow servers."""

from typing import ClassVar


class Sizes:
    """Sizes that subclasses of the suite may override."""

    bulk: ClassVar[int] = 20_000
    """Number of keys in the largest tests; above 1,100, all page and chunk sizes are exercised."""

    racers: ClassVar[int] = 16
    """Number of concurrent increments of a key, of which one succeeds: a multiple of 4."""

    share: ClassVar[int] = 1
    """Divisor of the number of histories compared with a dict."""

    one_handle: ClassVar[bool] = False
    """Whether a store can be opened only once; the second attempt gets `StoreLocked`."""

    over_a_network: ClassVar[bool | None] = True
    """Whether a read announces its wait for another process; None if the driver's own tests check
    it, because the answer depends on the distance of the server."""
