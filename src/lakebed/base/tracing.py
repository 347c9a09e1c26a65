"""Traces of what a request does in each layer: off by default, and then almost free.

Functions that are worth a line in a trace are marked with `traced`. While tracing is off, it costs
one comparison a call. `turn_on` gives them an OpenTelemetry tracer; the server does so when its
settings ask for it (extra ``otel``). No layer below the server imports OpenTelemetry.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import ParamSpec, TypeVar

ParamT = ParamSpec("ParamT")
ResultT = TypeVar("ResultT")

StartSpan = Callable[[str], AbstractContextManager[object]]
"""Begins a span of the given name; the span ends with the ``with`` block."""

_start_span: StartSpan | None = None


def turn_on(start_span: StartSpan) -> None:
    """Let every traced call of this process begin a span."""
    global _start_span  # noqa: PLW0603 (one tracer a process, set before it serves anything)
    _start_span = start_span


def turn_off() -> None:
    """Stop tracing."""
    global _start_span  # noqa: PLW0603
    _start_span = None


def span_starter() -> StartSpan | None:
    """Return the function that begins spans, or None while tracing is off."""
    return _start_span


def traced(name: str) -> Callable[[Callable[ParamT, ResultT]], Callable[ParamT, ResultT]]:
    """Mark a function as a span of this name, for example ``engine.commit``."""

    def mark(function: Callable[ParamT, ResultT]) -> Callable[ParamT, ResultT]:
        @wraps(function)
        def call(*args: ParamT.args, **kwargs: ParamT.kwargs) -> ResultT:
            if _start_span is None:
                return function(*args, **kwargs)
            with _start_span(name):
                return function(*args, **kwargs)

        return call

    return mark
