"""Tracing of each layer's work in a request: off by default, and then almost free.

Functions worth a span are decorated with `traced`, which costs a comparison a call while tracing is
off. `turn_on` provides an OpenTelemetry tracer; the server calls it if its settings ask for tracing
(extra ``otel``). No layer below the server imports OpenTelemetry.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import ParamSpec, TypeVar

ParamT = ParamSpec("ParamT")
ResultT = TypeVar("ResultT")

StartSpan = Callable[[str], AbstractContextManager[object]]
"""Starts a span of the given name; the span ends with the ``with`` block."""

_start_span: StartSpan | None = None


def turn_on(start_span: StartSpan) -> None:
    """Start a span for every traced call of this process."""
    global _start_span  # noqa: PLW0603 (one tracer a process, set before it serves anything)
    _start_span = start_span


def turn_off() -> None:
    """Stop tracing."""
    global _start_span  # noqa: PLW0603
    _start_span = None


def span_starter() -> StartSpan | None:
    """Return the function that starts spans, or None while tracing is off."""
    return _start_span


def traced(name: str) -> Callable[[Callable[ParamT, ResultT]], Callable[ParamT, ResultT]]:
    """Decorate a function with a span of this name, for example ``engine.commit``."""

    def decorate(function: Callable[ParamT, ResultT]) -> Callable[ParamT, ResultT]:
        @wraps(function)
        def call(*args: ParamT.args, **kwargs: ParamT.kwargs) -> ResultT:
            if _start_span is None:
                return function(*args, **kwargs)
            with _start_span(name):
                return function(*args, **kwargs)

        return call

    return decorate
