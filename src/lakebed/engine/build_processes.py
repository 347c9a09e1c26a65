"""Processes that build large commits and merges, which would slow down the requests of a server.

A builder opens the store and the storage itself. It takes one request at a time from a pipe, and
answers with the ids of files that are durable by then, or with an error. Nothing else passes
between the two processes: a builder may die at any moment, and only time is lost. It ends when its
pipe is closed, so it never outlives the process that started it, however that one ended.
"""

import gc
import logging
import multiprocessing
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from queue import Empty, LifoQueue
from typing import Any, ClassVar, Final, NamedTuple, Self

from lakebed.base.errors import LakebedError
from lakebed.base.runtime import ThreadRuntime, about_to_wait
from lakebed.base.without_pandas import call_without_pandas
from lakebed.block import BlockSettings, open_block
from lakebed.engine.commits.build import (
    Build,
    BuildRequest,
    Builds,
    Built,
    MergeBuild,
    MergeBuildRequest,
)
from lakebed.engine.committed import Cache, committed_for
from lakebed.engine.settings import CacheSettings, EngineSettings
from lakebed.formats import MetaRangeID
from lakebed.kv import open_store

_LOGGER: Final = logging.getLogger(__name__)

_STOP_SECONDS: Final = 5.0
"""How long a builder may take to end by itself before it is killed."""


class BuilderFailed(LakebedError):
    """A process did not build a commit; nothing was committed, and what is staged is there."""

    kind: ClassVar[str] = "worker_failed"


class BuilderDied(BuilderFailed):
    """A process that built a commit ended before it was done; nothing was committed."""

    kind = "worker_died"

    def __init__(self, exit_code: int | None) -> None:
        super().__init__(
            f"the process that built the commit ended (exit code {exit_code}); what is staged is"
            " still there: try again, with more memory if that was too little"
        )
        self.exit_code = exit_code


class BuilderHung(BuilderFailed):
    """A process took too long to build a commit, and was ended; nothing was committed."""

    kind = "worker_hung"

    def __init__(self, limit_seconds: float) -> None:
        super().__init__(
            f"the process that built the commit was not done after {limit_seconds:g} seconds, and"
            " was ended; what is staged is still there: try again"
        )


class BuildersBusy(BuilderFailed):
    """No process was free to build a commit in time; nothing was committed."""

    kind = "workers_busy"

    def __init__(self, limit_seconds: float) -> None:
        super().__init__(
            f"other commits were built for {limit_seconds:g} seconds before this one; what is"
            " staged is still there: try again, or let more processes build (processes.builders)"
        )


_Request = BuildRequest | MergeBuildRequest


class _Places(NamedTuple):
    """What a builder opens."""

    store_url: str
    block: BlockSettings
    cache: CacheSettings


class Builders:
    """Some processes that build commits, started when they are first needed, or soon before.

    Other processes must see the same data in the store and in the storage: neither may be in
    memory.
    """

    def __init__(
        self,
        store_url: str,
        block: BlockSettings,
        *,
        processes: int = 1,
        cache: CacheSettings | None = None,
        begin: Callable[[], None] | None = None,
        limit_seconds: float = EngineSettings().scan_limit_seconds,
    ) -> None:
        """Prepare builders.

        Args:
            store_url: The store, for `open_store`.
            block: The storage.
            processes: How many.
            cache: What each keeps of committed files.
            begin: Called first in each process, to set up its logs.
            limit_seconds: How long a build may take, and how long it may wait for its turn. A build
                that takes longer than the engine's `scan_limit_seconds` would not be published.
        """
        self._processes = processes
        self._limit_seconds = limit_seconds
        # The one used last goes first: it runs, and its caches are warm.
        self._idle: LifoQueue[_Builder] = LifoQueue()
        for _ in range(processes):
            self._idle.put(_Builder(_Places(store_url, block, cache or CacheSettings()), begin))

    def build(self, request: BuildRequest) -> Built:
        """Build in one of the processes, as soon as one is free; see `Build`.

        Raises:
            BuilderDied: The process ended, and so did the one started in its place.
            BuilderHung: It was not done in time. Another would hardly be, and somebody waits.
            BuildersBusy: No process was free in time.
        """
        built: Built = self._ask(request)
        return built

    def merge(self, request: MergeBuildRequest) -> MetaRangeID:
        """Merge in one of the processes; see `MergeBuild`. Raises as `build` does."""
        merged: MetaRangeID = self._ask(request)
        return merged

    def prepare(self) -> None:
        """Start a process if none runs yet: a build is likely to come soon.

        It takes most of a second until a process is ready. This does not wait for that.
        """
        try:
            builder = self._idle.get_nowait()
        except Empty:
            return  # all are at work
        try:
            builder.prepare()
        except Exception as error:  # noqa: BLE001 - the write that foretold a build is done already
            _LOGGER.warning("cannot start a builder yet: %s", error)
        finally:
            self._idle.put(builder)

    def _ask(self, request: _Request) -> Any:
        try:
            about_to_wait()
            builder = self._idle.get(timeout=self._limit_seconds)
        except Empty:
            raise BuildersBusy(self._limit_seconds) from None
        try:
            try:
                return builder.ask(request, self._limit_seconds)
            except BuilderDied as error:
                # It may have been killed by chance: once more in a new one. Never in this process:
                # a build that needs too much memory must not take the server with it.
                _LOGGER.warning("a builder ended (exit code %s): trying again", error.exit_code)
                return builder.ask(request, self._limit_seconds)
        finally:
            self._idle.put(builder)

    def close(self) -> None:
        """End the processes, when they are done; a build after this would start one again."""
        for builder in [self._idle.get() for _ in range(self._processes)]:
            builder.stop()
            self._idle.put(builder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class _Builder:
    """One process, as its parent sees it; used by one thread at a time."""

    def __init__(self, places: _Places, begin: Callable[[], None] | None) -> None:
        self._places = places
        self._begin = begin
        self._running: tuple[BaseProcess, Connection] | None = None

    def ask(self, request: _Request, limit_seconds: float) -> Any:
        """Have a request answered by the process; start it if it does not run."""
        process, pipe = self._running or self._start()
        try:
            pipe.send(request)
            answer = _receive(pipe, limit_seconds)
        except (EOFError, OSError) as error:
            self.stop()
            raise BuilderDied(process.exitcode) from error
        except BaseException:
            # Hung, or interrupted. A late answer would be taken for that of the next request.
            process.kill()
            self.stop()
            raise
        if isinstance(answer, Exception):
            raise answer
        return answer

    def prepare(self) -> None:
        """Start the process if it does not run."""
        if self._running is None:
            self._start()

    def stop(self) -> None:
        """End the process."""
        if self._running is None:
            return
        process, pipe = self._running
        self._running = None
        pipe.close()
        process.join(_STOP_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()

    def _start(self) -> tuple[BaseProcess, Connection]:
        # Spawned, not forked: locks and connections of this process must not be copied.
        context = multiprocessing.get_context("spawn")
        pipe, far_end = context.Pipe()
        serve = bytes(ForkingPickler.dumps(partial(_serve, self._places, self._begin)))
        process = context.Process(
            target=call_without_pandas, args=(serve, far_end), name="lakebed-build", daemon=True
        )
        process.start()
        far_end.close()  # so that the pipe ends when the builder does
        self._running = (process, pipe)
        _LOGGER.info("started builder process %s", process.pid)
        return self._running


def _receive(pipe: Connection, limit_seconds: float) -> object:
    if not pipe.poll(limit_seconds):
        _LOGGER.warning("a builder was not done after %g seconds: it is ended", limit_seconds)
        raise BuilderHung(limit_seconds)
    return pipe.recv()


# In the builder


def _serve(places: _Places, begin: Callable[[], None] | None, pipe: Connection) -> None:
    # Ctrl-C reaches all processes of a terminal; this one ends when its parent does.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if begin is not None:
        begin()
    with suppress(Exception):  # the first request tries again, and is told what is wrong
        _open(places)
    # What is there by now stays. To look through it again and again for what could be freed took a
    # fifth of the time of a build.
    gc.freeze()
    while True:
        try:
            request = pipe.recv()
            pipe.send(_answer(places, request))
        except (EOFError, OSError):
            return  # the parent is gone


def _answer(places: _Places, request: _Request) -> Built | MetaRangeID | Exception:
    try:
        build, merge = _open(places)
        return merge(request) if isinstance(request, MergeBuildRequest) else build(request)
    except LakebedError as error:
        return error
    except Exception as error:  # noqa: BLE001 - whatever it is, the caller waits for an answer
        return RuntimeError(f"a build failed: {type(error).__name__}: {error}")


@lru_cache(maxsize=1)
def _open(places: _Places) -> tuple[Build, MergeBuild]:
    """Open store and storage once; again after a failure."""
    runtime = ThreadRuntime()
    storage = open_block(places.block, runtime=runtime)
    committed_in = committed_for(storage, runtime, Cache(runtime, places.cache))
    store = open_store(places.store_url, runtime=runtime)
    builds = Builds(store, committed_in, runtime, EngineSettings())
    return builds.apply, builds.merge
