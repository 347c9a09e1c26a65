"""``time``: times in nanoseconds since 1970, layouts as in Go."""

import re
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lakebed.lake.hooks.lua_child.values import CallFailed, number, text

_SECOND: Final = 10**9
_ISO_LAYOUT: Final = "2006-01-02T15:04:05-07:00"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_HALF_DAY: Final = 12
_UNITS: Final = (timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1))
_PIVOT_YEAR: Final = 69  # as in POSIX


def _offset(moment: datetime, form: str) -> str:
    offset = moment.utcoffset() or timedelta()
    if form[0] == "Z" and not offset:
        return "Z"
    seconds = int(abs(offset).total_seconds())
    parts = iter((seconds // 3600, seconds // 60 % 60, seconds % 60))
    sign = "-" if offset < timedelta() else "+"
    return sign + re.sub(r"\d\d", lambda _: f"{next(parts):02}", form[1:])


def _offset_part(form: str) -> "_Part":
    pattern = ("Z|" if form[0] == "Z" else "") + "[+-]" + re.sub(r"\d\d", r"\\d\\d", form[1:])
    return lambda at: _offset(at, form), pattern, "offset"


def _any_of(names: Iterable[str]) -> str:
    return f"(?i:{'|'.join(names)})"


_Part = tuple[Callable[[datetime], str], str, str]
"""A layout element: its formatter, the pattern that parses it, and the name of its value."""
_PARTS: Final[dict[str, _Part]] = {
    "January": (lambda at: _MONTHS[at.month - 1], _any_of(_MONTHS), "month_name"),
    "Jan": (lambda at: _MONTHS[at.month - 1][:3], _any_of(x[:3] for x in _MONTHS), "month_name"),
    "Monday": (lambda at: _DAYS[at.weekday()], _any_of(_DAYS), ""),
    "Mon": (lambda at: _DAYS[at.weekday()][:3], _any_of(x[:3] for x in _DAYS), ""),
    "MST": (lambda at: at.tzname() or "UTC", r"[A-Z]{3,5}(?:[+-]\d{1,2})?", ""),
    "2006": (lambda at: f"{at.year:04}", r"\d{4}", "year"),
    "002": (lambda at: f"{at:%j}", r"\d{3}", "day_of_year"),
    "__2": (lambda at: f"{int(f'{at:%j}'):3}", r" {0,2}\d{1,3}", "day_of_year"),
    "01": (lambda at: f"{at.month:02}", r"\d\d", "month"),
    "02": (lambda at: f"{at.day:02}", r"\d\d", "day"),
    "03": (lambda at: f"{at.hour % 12 or 12:02}", r"0\d|1[0-2]", "hour"),
    "04": (lambda at: f"{at.minute:02}", r"\d\d", "minute"),
    "05": (lambda at: f"{at.second:02}", r"\d\d", "second"),
    "06": (lambda at: f"{at.year % 100:02}", r"\d\d", "short_year"),
    "15": (lambda at: f"{at.hour:02}", r"\d{1,2}", "hour"),
    "PM": (lambda at: "PM" if at.hour >= _HALF_DAY else "AM", "AM|PM", "half"),
    "pm": (lambda at: "pm" if at.hour >= _HALF_DAY else "am", "am|pm", "half"),
    "_2": (lambda at: f"{at.day:2}", r" ?\d{1,2}", "day"),
    "1": (lambda at: str(at.month), r"\d{1,2}", "month"),
    "2": (lambda at: str(at.day), r"\d{1,2}", "day"),
    "3": (lambda at: str(at.hour % 12 or 12), r"0?\d|1[0-2]", "hour"),
    "4": (lambda at: str(at.minute), r"\d{1,2}", "minute"),
    "5": (lambda at: str(at.second), r"\d{1,2}", "second"),
} | {
    sign + form: _offset_part(sign + form)
    for sign in "Z-"
    for form in ("070000", "07:00:00", "07:00", "0700", "07")
}
_FRACTION: Final = r"[.,](?:0+|9+)(?!\d)"
_NOT_BEFORE: Final = {"Jan": "(?![a-z])", "Mon": "(?![a-z])", "_2": "(?!006)"}
_LAYOUT: Final = re.compile(
    "|".join(
        re.escape(part) + _NOT_BEFORE.get(part, "")
        for part in sorted(_PARTS, key=len, reverse=True)
    )
    + f"|{_FRACTION}"
)


def _part(written: str) -> _Part:
    if written in _PARTS:
        return _PARTS[written]
    # As in lakeFS, a formatted time is in whole seconds.
    if written[1] == "0":
        return lambda _: written[:10], rf"[.,]\d{{{len(written) - 1}}}", "fraction"
    return lambda _: "", r"(?:[.,]\d+)?", "fraction"


def format_moment(moment: datetime, layout: str) -> str:
    """Format a time by a Go layout."""
    return _LAYOUT.sub(lambda found: _part(found[0])[0](moment), layout)


def _literal(written: str) -> str:
    return re.sub(r"(?:\\ )+", " +", re.escape(written))


def parse_time(layout: str, value: str) -> int:
    """Parse a time by a Go layout; without a zone, in UTC. Raise `CallFailed` on a mismatch."""
    names: list[str] = []
    expression = ""
    end = 0
    has_fraction = re.search(_FRACTION, layout) is not None
    for found in _LAYOUT.finditer(layout):
        _, part, name = _part(found[0])
        expression += _literal(layout[end : found.start()]) + f"({part})"
        names.append(name)
        if name == "second" and not has_fraction:
            # As in Go, seconds may have a fraction without one in the layout.
            expression += r"([.,]\d+)?"
            names.append("fraction")
        end = found.end()
    read = re.fullmatch(expression + _literal(layout[end:]), value, re.ASCII)
    if read is None:
        raise CallFailed(f"{value!r} does not match the layout {layout!r}")
    parts = dict(zip(names, read.groups(""), strict=True))
    try:
        seconds = int((_assemble(parts) - _EPOCH).total_seconds())
    except (ValueError, OverflowError) as error:
        raise CallFailed(f"{value!r} is not a time: {error}") from error
    return seconds * _SECOND + int(parts.get("fraction", "")[1:10].ljust(9, "0"))


def _assemble(read: dict[str, str]) -> datetime:
    hour = int(read.get("hour", "0"))
    if "half" in read:
        hour = hour % _HALF_DAY + (_HALF_DAY if read["half"].lower() == "pm" else 0)
    year = int(read.get("year", "0")) or _full_year(read.get("short_year", "01"))
    month = int(read.get("month", "1"))
    if "month_name" in read:
        month = 1 + [name[:3] for name in _MONTHS].index(read["month_name"][:3].title())
    date = datetime(year, month, int(read.get("day", "1")), tzinfo=_read_offset(read))
    if "day_of_year" in read:
        first = datetime(year, 1, 1, tzinfo=date.tzinfo)
        counted = first + timedelta(days=int(read["day_of_year"]) - 1)
        is_given = not {"day", "month", "month_name"}.isdisjoint(read)
        if counted.year != year or (is_given and counted != date):
            raise ValueError("the day of the year is not in the year, or not the day of the month")
        date = counted
    return date.replace(
        hour=hour, minute=int(read.get("minute", "0")), second=int(read.get("second", "0"))
    )


def _full_year(short: str) -> int:
    year = int(short)
    return 1900 + year if year >= _PIVOT_YEAR else 2000 + year


def _read_offset(read: dict[str, str]) -> tzinfo:
    written = read.get("offset", "Z")
    if written == "Z":
        return UTC
    parts = map(int, re.findall(r"\d\d", written))
    offset = sum((next(parts, 0) * unit for unit in _UNITS), timedelta())
    return timezone(-offset if written[0] == "-" else offset)


def _moment(nanoseconds: object, zone: object) -> datetime:
    name = "" if zone is None else text(zone).decode(errors="replace")
    try:
        found = ZoneInfo(name) if name and name != "UTC" else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise CallFailed(f"unknown time zone {name!r}") from error
    return (_EPOCH + timedelta(seconds=int(number(nanoseconds)) // _SECOND)).astimezone(found)


def _format(nanoseconds: object, layout: object, zone: object = None) -> str:
    return format_moment(_moment(nanoseconds, zone), text(layout, 2).decode(errors="replace"))


def _format_iso(nanoseconds: object, zone: object = None) -> str:
    return format_moment(_moment(nanoseconds, zone), _ISO_LAYOUT)


def _parse(layout: object, value: object) -> int:
    written = text(layout).decode(errors="replace"), text(value, 2).decode(errors="replace")
    return parse_time(*written)


def _parse_iso(value: object) -> int:
    return _parse(_ISO_LAYOUT.encode(), value)


def _sleep(nanoseconds: object) -> None:
    time.sleep(max(0.0, number(nanoseconds) / _SECOND))


def _add(start: object, duration: object) -> int | float:
    given = duration if isinstance(duration, dict) else {}
    units = {"hour": 3600, "minute": 60, "second": 1}
    seconds = sum(number(given.get(unit, 0)) * length for unit, length in units.items())
    return number(start) + seconds * _SECOND


TIME: Final = {
    "now": time.time_ns,
    "format": _format,
    "format_iso": _format_iso,
    "formatISO": _format_iso,
    "sleep": _sleep,
    "since": lambda start: time.time_ns() - number(start),
    "add": _add,
    "parse": _parse,
    "parse_iso": _parse_iso,
    "parseISO": _parse_iso,
}
