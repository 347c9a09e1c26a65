"""Arguments of commands, read without Typer's own conversion where that is possible.

Typer converts every argument with Pydantic, whose import and preparation take longer than most
commands. What our commands take is simple: texts, paths, numbers, words from a list, and what a
parser of ours reads. Those are converted here. Whatever is anything else, or is wrong, goes Typer's
way, so that its errors are the ones that people see.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

_UNKNOWN: Final = object()


def quicken(command: Any) -> None:
    """Let the arguments of a command, and of the commands in it, be read quickly."""
    for parameter in command.params:
        _quicken_parameter(parameter)
    make_help = command.get_help_option

    def quick_help(context: Any) -> Any:
        option = make_help(context)
        if option is not None:
            _quicken_parameter(option)
        return option

    command.get_help_option = quick_help
    inner = getattr(command, "commands", None)
    if isinstance(inner, dict):
        for each in inner.values():
            quicken(each)


def _quicken_parameter(parameter: Any) -> None:
    convert = _converter(parameter)
    if convert is not None:
        parameter._runtime_param = _Quick(convert)  # noqa: SLF001 (Typer asks it first)


class _Quick:
    """Has the one method that Typer calls."""

    def __init__(self, convert: Callable[[Any], Any]) -> None:
        self._convert = convert

    def coerce(self, value: Any, *, param: Any, ctx: Any) -> Any:
        is_many = param.multiple or param.nargs == -1
        if value is None:
            return () if is_many else None
        try:
            found = [self._convert(each) for each in value] if is_many else self._convert(value)
        except ValueError:
            found = _UNKNOWN
        if found is not _UNKNOWN and not (is_many and _UNKNOWN in found):
            return found
        param._runtime_param = None  # noqa: SLF001 (Typer makes its own)
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def _converter(parameter: Any) -> Callable[[Any], Any] | None:
    """Return a function that gives a value or `_UNKNOWN`; None: the type is not a simple one."""
    kind, info = parameter.type_descriptor.annotation, parameter.type_descriptor.parameter_info
    if get_origin(kind) is list:
        [kind] = get_args(kind)
    if info.parser is not None:
        parse: Callable[[Any], Any] = info.parser
        return parse
    if kind in (str, bool):
        return lambda value: value if isinstance(value, kind) else _UNKNOWN
    if kind is int:
        return lambda value: _number(value, info.min, info.max)
    if kind is Path and not (info.exists or info.resolve_path or info.allow_dash):
        return lambda value: Path(value) if isinstance(value, str | Path) else _UNKNOWN
    if get_origin(kind) is Literal:
        words = frozenset(get_args(kind))
        return lambda value: value if value in words else _UNKNOWN
    return None


def _number(value: Any, least: float | None, most: float | None) -> Any:
    number = value if isinstance(value, int) else int(value) if isinstance(value, str) else None
    if number is None or (least is not None and number < least):
        return _UNKNOWN
    return _UNKNOWN if most is not None and number > most else number
