"""How much the conformance suite of key-value stores asks of a driver; slow servers take less."""

from typing import ClassVar


class Sizes:
    """What subclasses of the suite may change."""

    bulk: ClassVar[int] = 20_000
    """How many keys the largest tests write. More than 1,100 show all that depends on sizes of
    pages and chunks."""

    racers: ClassVar[int] = 16
    """How many count up one key at the same time, of whom all but one fail: a multiple of 4."""

    share: ClassVar[int] = 1
    """One of so many histories is compared with a dict."""

    one_handle: ClassVar[bool] = False
    """Whether only one at a time can have the store open; the second is told that it is locked."""

    over_a_network: ClassVar[bool | None] = True
    """Whether a read waits for another process, and says so; None: if that is far away, which the
    driver has tests of its own for."""

    """Whether the store can tell that nothing in it has changed."""
