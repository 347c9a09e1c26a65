"""The parts of Granian that we override or call although they are not public.

If one of these changes, look at `lakebed.server.processes.granian_parts` before the new value is
written here.
"""

import hashlib
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import granian
import pytest
from granian.server import MPServer
from granian.server.common import AbstractServer, AbstractWorker
from granian.server.mp import WorkerProcess

from lakebed.server.processes.granian_parts import GranianServer
from lakebed.server.settings import ServerSettings


def digest(part: Callable[..., Any]) -> str:
    source = textwrap.dedent(inspect.getsource(part))
    return hashlib.sha256(source.encode()).hexdigest()[:16]


@pytest.mark.parametrize(
    ("part", "known"),
    [
        (AbstractServer._serve_loop, "70f375e8c0cf2d29"),
        (AbstractServer._respawn_workers, "1c89b12b802cd01a"),
        (AbstractServer._stop_workers, "c78f26eb7809e442"),
        (AbstractServer.signal_handler_interrupt, "bb78d13306a80c63"),
        (AbstractServer.startup, "b084c198e90f709c"),
        (AbstractServer.shutdown, "7ccc3f4009e617c7"),
        (AbstractServer._serve, "f99da616b62d4fad"),
        (AbstractWorker._watcher, "1999d9e5980f5449"),
        (WorkerProcess._spawn, "93aff5c504234c2f"),
        (WorkerProcess.wrap_target, "215ff75a426bbe79"),
    ],
)
def test_a_part_is_the_one_that_the_override_was_written_for(
    part: Callable[..., Any], known: str
) -> None:
    assert digest(part) == known, f"granian {granian.__version__} has changed {part.__qualname__}"


def test_the_override_is_the_one_that_is_called() -> None:
    assert GranianServer._serve_loop is not MPServer._serve_loop
    assert MPServer._serve_loop is AbstractServer._serve_loop
    assert MPServer._respawn_workers is AbstractServer._respawn_workers
    assert "self._serve_loop(spawn_target, target_loader)" in inspect.getsource(
        AbstractServer._serve
    )


def test_the_attributes_that_the_loop_uses_are_there() -> None:
    server = GranianServer(
        ServerSettings(),
        "127.0.0.1",
        look_after=lambda: None,
        on_death=lambda _pid: None,
        is_ready=lambda: True,
    )
    assert (server.wrks, server.interrupt_children) == ([], [])
    assert not server.main_loop_interrupt.is_set()
    assert not server.is_stopping
    server.stop()
    assert server.main_loop_interrupt.is_set()
    assert server.is_stopping
