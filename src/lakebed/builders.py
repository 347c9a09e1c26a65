"""Processes that build large commits, so that the writers of a server keep their pace.

A worker opens the store and the storage itself, takes one build at a time from a pipe, and answers
with ids of files that are durable by then, or with the error. Nothing else passes between the two:
a worker may die at any moment, and all that is lost is time. It ends when its pipe does, so none
outlives the process that started it, however that ended.
"""

import multiprocessing
import signal
from collections.abc import Callable
from functools import lru_cache
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from typing import Final, Self

from lakebed.block import BlockSettings, open_block
from lakebed.engine.commits.build import Build, BuildRequest, Built, build_here
from lakebed.engine.committed import Cache
from lakebed.engine.committed.opened import committed_for
from lakebed.errors import LakebedError
from lakebed.kv import open_store
from lakebed.runtime import ThreadRuntime

_TRIES: Final = 2
_PATIENCE_SECONDS: Final = 5.0


class WorkerDied(LakebedError):  # noqa: N818 - it says what happened
    """A process that built a commit ended before it was done; nothing was committed."""

    kind = "worker_died"

    def __init__(self, exit_code: int | None) -> None:
        super().__init__(
            f"the process that built the commit ended (exit code {exit_code}); what is staged is"
            " still there: try again, with more memory if that is what it lacked"
        )
        self.exit_code = exit_code


class BuildWorkers:
    """Some processes that build commits, started when they are first needed.

    Both the store and the storage must be such that other processes see the same data.
    """

    def __init__(
        self,
        store_url: str,
        block: BlockSettings,
        *,
        processes: int = 1,
        begin: Callable[[], None] | None = None,
    ) -> None:
        """Prepare workers; `begin` is called first in each process, to set up its logs."""
        self._processes = processes
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        for _ in range(processes):
            self._idle.put(_Worker(store_url, block, begin))

    def build(self, request: BuildRequest) -> Built:
        """Build in one of the processes, when one is free; see `lakebed.engine.commits.build`.

        Raises:
            WorkerDied: The process ended, and so did the one started in its place.
        """
        worker = self._idle.get()
        try:
            for _ in range(_TRIES - 1):
                try:
                    return worker.build(request)
                except WorkerDied:
                    # It may have been killed for reasons of its own. Never in this process instead:
                    # a build that exhausts the memory must not take the server along.
                    continue
            return worker.build(request)
        finally:
            self._idle.put(worker)

    def close(self) -> None:
        """End the processes, when they are done; a build after this would start one again."""
        for worker in [self._idle.get() for _ in range(self._processes)]:
            worker.stop()
            self._idle.put(worker)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class _Worker:
    """One process, as its parent sees it; used by one thread at a time."""

    def __init__(
        self, store_url: str, block: BlockSettings, begin: Callable[[], None] | None
    ) -> None:
        self._settings = (store_url, block, begin)
        self._running: tuple[BaseProcess, Connection] | None = None

    def build(self, request: BuildRequest) -> Built:
        """Build in the process; start it if it does not run."""
        process, pipe = self._running or self._start()
        try:
            pipe.send(request)
            answer: Built | Exception = pipe.recv()
        except (EOFError, OSError) as error:
            self.stop()
            raise WorkerDied(process.exitcode) from error
        except BaseException:
            # Interrupted: the answer, when it comes, must not be taken for that of another request.
            process.kill()
            self.stop()
            raise
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stop(self) -> None:
        """End the process."""
        if self._running is None:
            return
        process, pipe = self._running
        self._running = None
        pipe.close()
        process.join(_PATIENCE_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()

    def _start(self) -> tuple[BaseProcess, Connection]:
        # Spawned, not forked: locks and connections of this process must not be copied.
        context = multiprocessing.get_context("spawn")
        pipe, far_end = context.Pipe()
        arguments = (far_end, *self._settings)
        process = context.Process(target=_serve, args=arguments, name="lakebed-build", daemon=True)
        process.start()
        far_end.close()  # or nobody would notice when the worker's own is closed
        self._running = (process, pipe)
        return self._running


# In the worker


def _serve(
    pipe: Connection, store_url: str, block: BlockSettings, begin: Callable[[], None] | None
) -> None:
    # Ctrl-C reaches all processes of a terminal; this one ends when its parent does.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if begin is not None:
        begin()
    while True:
        try:
            request = pipe.recv()
            pipe.send(_answer(store_url, block, request))
        except (EOFError, OSError):
            return  # the parent is gone


def _answer(store_url: str, block: BlockSettings, request: BuildRequest) -> Built | Exception:
    try:
        return _open_build(store_url, block)(request)
    except LakebedError as error:
        return error
    except Exception as error:  # noqa: BLE001 - whatever it is, the caller waits for an answer
        return RuntimeError(f"a build failed: {type(error).__name__}: {error}")


@lru_cache(maxsize=1)
def _open_build(store_url: str, block: BlockSettings) -> Build:
    """Open store and storage once; again after a failure."""
    runtime = ThreadRuntime()
    storage = open_block(block, runtime=runtime)
    committed_in = committed_for(storage, runtime, Cache(runtime))
    return build_here(open_store(store_url, runtime=runtime), committed_in)
