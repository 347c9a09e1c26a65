"""Durations in the syntax of Go: ``90s``, ``1m30s``, ``1.5h``."""

import re
from typing import Final

_SECONDS: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
_NUMBER: Final = r"(?:[0-9]{1,12}(?:\.[0-9]{0,12})?|\.[0-9]{1,12})"
_PART: Final = re.compile(rf"({_NUMBER})(ns|us|µs|μs|ms|s|m|h)")
_WHOLE: Final = re.compile(rf"([-+]?)((?:{_NUMBER}(?:ns|us|µs|μs|ms|s|m|h)){{1,8}}|0)")


def parse_duration(text: str) -> float:
    """Return a duration in seconds; raise `ValueError` if the text is not a duration."""
    whole = _WHOLE.fullmatch(text)
    if whole is None:
        raise ValueError(f"{text!r} is not a duration: write it as 30s, 5m or 1m30s")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(whole[2]))
    return -seconds if whole[1] == "-" else seconds
