"""Log output of a command on stderr."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from lakebed.clients.http.traffic import LOGGER as TRAFFIC

_LOGGER: Final = logging.getLogger("lakebed")
_NONE: Final = logging.CRITICAL + 1


@contextmanager
def shown_logs(level: str | None, *, traffic: bool) -> Iterator[None]:
    """Show log lines from `level` on, and requests and responses with `traffic`.

    Without a level, Python's default shows warnings.
    """
    if level is None and not traffic:
        yield
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Format("%(levelname)s: %(message)s"))
    before = _LOGGER.level, _LOGGER.propagate
    wanted = logging.WARNING if level is None else _number(level)
    _LOGGER.addHandler(handler)
    _LOGGER.setLevel(wanted)
    _LOGGER.propagate = False
    before_traffic = TRAFFIC.level
    TRAFFIC.setLevel(logging.DEBUG if traffic else before_traffic)
    try:
        yield
    finally:
        _LOGGER.removeHandler(handler)
        _LOGGER.setLevel(before[0])
        _LOGGER.propagate = before[1]
        TRAFFIC.setLevel(before_traffic)


def _number(level: str) -> int:
    return _NONE if level == "none" else logging.getLevelNamesMapping()[level.upper()]


class _Format(logging.Formatter):
    """Formatter that leaves traffic lines without a prefix."""

    def format(self, record: logging.LogRecord) -> str:
        return record.getMessage() if record.name == TRAFFIC.name else super().format(record)
