"""Processes that build large commits and merges, to keep a server's requests fast.

A builder opens the store and the storage itself. It receives one request at a time from a pipe, and
answers with the ids of durable files, or with an error. The processes share no other state: a
builder may die at any moment at the cost of time only. It exits when its pipe is closed, so it
never outlives its parent, even a killed one.
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
from typing import ClassVar, Final, NamedTuple, Self

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
"""How long a builder may take to exit before it is killed."""


class BuilderFailed(LakebedError):
    """A process did not build a commit; nothing was committed, and staged changes are kept."""

    kind: ClassVar[str] = "worker_failed"


class BuilderDied(BuilderFailed):
    """A process exited while building a commit; nothing was committed."""

    kind = "worker_died"

    def __init__(self, exit_code: int | None) -> None:
        super().__init__(
            f"the process that built the commit died (exit code {exit_code}): staged changes are"
            " kept; try again, with more memory if it ran out"
        )
        self.exit_code = exit_code


class BuilderHung(BuilderFailed):
    """A process took too long to build a commit and was killed; nothing was committed."""

    kind = "worker_hung"

    def __init__(self, limit_seconds: float) -> None:
        super().__init__(
            f"the process that built the commit was killed after {limit_seconds:g} seconds:"
            " staged changes are kept; try again"
        )


class BuildersBusy(BuilderFailed):
    """No process was free to build a commit in time; nothing was committed."""

    kind = "workers_busy"

    def __init__(self, limit_seconds: float) -> None:
        super().__init__(
            f"no build process was free within {limit_seconds:g} seconds: staged changes are"
            " kept; try again, or run more build processes (processes.builders)"
        )


_Request = BuildRequest | MergeBuildRequest


class _Places(NamedTuple):
    """Configuration of a builder: store, storage and caches."""

    store_url: str
    block: BlockSettings
    cache: CacheSettings


class Builders:
    """A pool of build processes, started on first use or by `prepare`.

    Processes share data through the store and the storage: neither may be in memory.
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

        `cache`: caches of committed files in each process. `begin`: called first in each process,
        to set up its logs. `limit_seconds`: maximum time of a build, and of waiting for a free
        process. A build longer than the engine's `scan_limit_seconds` would not be published.
        """
        self._processes = processes
        self._limit_seconds = limit_seconds
        # The last used process goes first: it runs, and its caches are warm.
        self._idle: LifoQueue[_Builder] = LifoQueue()
        for _ in range(processes):
            self._idle.put(_Builder(_Places(store_url, block, cache or CacheSettings()), begin))

    def build(self, request: BuildRequest) -> Built:
        """Build in the next free process; see `Build`.

        Raises:
            BuilderDied: The process died, and so did its replacement.
            BuilderHung: The build took too long. No retry: it would hardly be faster.
            BuildersBusy: No process was free in time.
        """
        built = self._ask(request)
        assert isinstance(built, Built)
        return built

    def merge(self, request: MergeBuildRequest) -> MetaRangeID:
        """Merge in one of the processes; see `MergeBuild`. Raises as `build`."""
        return MetaRangeID(str(self._ask(request)))

    def prepare(self) -> None:
        """Start a process if none runs, ahead of a likely build.

        A process takes most of a second to start; this call does not wait for it.
        """
        try:
            builder = self._idle.get_nowait()
        except Empty:
            return  # all are busy
        try:
            builder.prepare()
        except Exception as error:  # noqa: BLE001 - the triggering write has already succeeded
            _LOGGER.warning("cannot start a builder: %s", error)
        finally:
            self._idle.put(builder)

    def _ask(self, request: _Request) -> object:
        try:
            about_to_wait()
            builder = self._idle.get(timeout=self._limit_seconds)
        except Empty:
            raise BuildersBusy(self._limit_seconds) from None
        try:
            try:
                return builder.ask(request, self._limit_seconds)
            except BuilderDied as error:
                # Retry once in a new process: the first may have been killed by chance. Never build
                # in this process: running out of memory would kill the server.
                _LOGGER.warning("a builder died (exit code %s): retrying", error.exit_code)
                return builder.ask(request, self._limit_seconds)
        finally:
            self._idle.put(builder)

    def close(self) -> None:
        """Stop the processes after their current builds; a later build starts one again."""
        for builder in [self._idle.get() for _ in range(self._processes)]:
            builder.stop()
            self._idle.put(builder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class _Builder:
    """A build process, as seen by its parent; used by one thread at a time."""

    def __init__(self, places: _Places, begin: Callable[[], None] | None) -> None:
        self._places = places
        self._begin = begin
        self._running: tuple[BaseProcess, Connection] | None = None

    def ask(self, request: _Request, limit_seconds: float) -> object:
        """Return the process's answer to a request; start the process if needed."""
        process, pipe = self._running or self._start()
        try:
            pipe.send(request)
            answer = _receive(pipe, limit_seconds)
        except (EOFError, OSError) as error:
            self.stop()
            raise BuilderDied(process.exitcode) from error
        except BaseException:
            # Hung or interrupted. A late answer would be taken for the next request's.
            process.kill()
            self.stop()
            raise
        if isinstance(answer, Exception):
            raise answer
        return answer

    def prepare(self) -> None:
        if self._running is None:
            self._start()

    def stop(self) -> None:
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
        far_end.close()  # so the pipe ends with the builder
        self._running = (process, pipe)
        _LOGGER.info("started builder process %s", process.pid)
        return self._running


def _receive(pipe: Connection, limit_seconds: float) -> object:
    if not pipe.poll(limit_seconds):
        _LOGGER.warning("killing a builder that was not done after %g seconds", limit_seconds)
        raise BuilderHung(limit_seconds)
    return pipe.recv()


# In the builder process


def _serve(places: _Places, begin: Callable[[], None] | None, pipe: Connection) -> None:
    # Ctrl-C reaches all processes of a terminal; a builder exits with its parent.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if begin is not None:
        begin()
    with suppress(Exception):  # the first request retries and reports the error
        _open(places)
    # Freeze the loaded objects: collecting them took 20 % of a build.
    gc.freeze()
    while True:
        try:
            request = pipe.recv()
            pipe.send(_answer(places, request))
        except (EOFError, OSError):
            return  # the parent exited


def _answer(places: _Places, request: _Request) -> Built | MetaRangeID | Exception:
    try:
        build, merge = _open(places)
        return merge(request) if isinstance(request, MergeBuildRequest) else build(request)
    except LakebedError as error:
        return error
    except Exception as error:  # noqa: BLE001 - the caller waits for an answer
        return RuntimeError(f"a build failed: {type(error).__name__}: {error}")


@lru_cache(maxsize=1)
def _open(places: _Places) -> tuple[Build, MergeBuild]:
    """Open store and storage once; failures are not cached."""
    runtime = ThreadRuntime()
    storage = open_block(places.block, runtime=runtime)
    committed_in = committed_for(storage, runtime, Cache(runtime, places.cache))
    store = open_store(places.store_url, runtime=runtime)
    builds = Builds(store, committed_in, runtime, EngineSettings())
    return builds.apply, builds.merge
