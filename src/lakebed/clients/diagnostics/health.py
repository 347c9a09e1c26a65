"""Availability and latency of an installation's parts, and its log."""

import json
import re
from collections import deque
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from statistics import median
from typing import Final
from urllib.error import HTTPError
from urllib.request import urlopen

from lakebed.base.runtime import Runtime
from lakebed.block import BlockStore, Namespace, ObjectNotFound
from lakebed.engine import records_pb2 as pb
from lakebed.formats.gc_files import decode_state
from lakebed.formats.layout import OWNER_PATH, state_path
from lakebed.kv import Store
from lakebed.kv.halt import find_halt
from lakebed.kv.schema import METADATA_PARTITION, SCHEMA_KEY
from lakebed.server.probes import StorageProbe, probe_store
from lakebed.server.settings import ServerSettings

PROBES: Final = 10
REPOSITORIES_ASKED: Final = 50
LOG_BYTES: Final = 4 << 20
LOG_LINES: Final = 300
ANSWER_SECONDS: Final = 5.0

_LOUD: Final = frozenset({"warning", "error", "critical"})
_LOUD_TEXT: Final = re.compile(r"(?i)\b(warning|error|critical)\b")


def database_facts(store: Store, runtime: Runtime) -> dict[str, object]:
    """Measure the latency of the database; return its driver and schema version."""
    latencies = [_milliseconds(runtime, lambda: probe_store(store)) for _ in range(PROBES)]
    schema = store.get_many([(METADATA_PARTITION, SCHEMA_KEY)])[0]
    halt = find_halt(store)
    return {
        "driver": store.name,
        "schema_version": None if schema is None else schema.value.decode(errors="replace"),
        "mark_of_a_copy": None if halt is None else halt.value.decode(errors="replace"),
        "latency_ms": _spread(latencies),
    }


def storage_facts(
    block: BlockStore,
    settings: ServerSettings,
    repositories: dict[str, pb.Repository],
    runtime: Runtime,
) -> dict[str, object]:
    """Measure the latency of the storage; check the owner file of each repository."""
    namespaces = [message.storage_namespace for message in repositories.values()]

    ask = StorageProbe(
        block, settings.blockstore, lambda: Namespace.parse(namespaces[0]) if namespaces else None
    )
    latencies = [_milliseconds(runtime, ask) for _ in range(PROBES)]
    asked = sorted(repositories.items())[:REPOSITORIES_ASKED]
    return {
        "scheme": block.scheme,
        "latency_ms": _spread(latencies),
        "repositories": {name: _owner_facts(block, message) for name, message in asked},
        "repositories_not_asked": len(repositories) - len(asked),
    }


def _owner_facts(block: BlockStore, repository: pb.Repository) -> str:
    try:
        block.head(Namespace.parse(repository.storage_namespace).address(OWNER_PATH))
    except Exception as error:  # noqa: BLE001 - reported
        return f"FAILED: {_error_text(error)}"
    return "ok"


def gc_facts(block: BlockStore, repositories: dict[str, pb.Repository]) -> dict[str, object]:
    """Return the last garbage collection run of each repository."""
    facts: dict[str, object] = {}
    for name, message in sorted(repositories.items())[:REPOSITORIES_ASKED]:
        try:
            namespace = Namespace.parse(message.storage_namespace)
            address = namespace.address(state_path(message.unique_id))
            facts[name] = str(decode_state(block.read(address), file=str(address)).run_id)
        except ObjectNotFound:
            facts[name] = "never ran"
        except Exception as error:  # noqa: BLE001 - reported
            facts[name] = f"FAILED: {_error_text(error)}"
    return facts


def clock_facts(settings: ServerSettings, ahead_us: int, runtime: Runtime) -> dict[str, object]:
    """Return the clock differences of the writers of records, and of a running server."""
    return {
        "latest_record_ahead_seconds": max(0, ahead_us) / 1e6,
        "server_ahead_seconds": _server_ahead_seconds(settings, runtime),
    }


def _server_ahead_seconds(settings: ServerSettings, runtime: Runtime) -> float | str:
    host = f"[{settings.listen.host}]" if ":" in settings.listen.host else settings.listen.host
    try:
        with urlopen(
            f"http://{host}:{settings.listen.port}/_health", timeout=ANSWER_SECONDS
        ) as answer:
            date = answer.headers["Date"]
    except HTTPError as error:
        date = error.headers["Date"]
        error.close()
    except OSError as error:
        return f"no server responds: {_error_text(error)}"
    return round(parsedate_to_datetime(date).timestamp() - runtime.now(), 1)


def log_facts(file: Path) -> list[object]:
    """Return the last warnings and errors of a log; JSON lines are decoded."""
    with file.open("rb") as log:
        size = log.seek(0, 2)
        log.seek(max(0, size - LOG_BYTES))
        lines = log.read().decode(errors="replace").splitlines()
    return list(deque(_warnings(lines), LOG_LINES))


def _warnings(lines: list[str]) -> Iterator[object]:
    for line in lines:
        try:
            record = json.loads(line)
            if str(record["level"]).lower() in _LOUD:
                yield record
        except (ValueError, KeyError, TypeError, RecursionError):
            if _LOUD_TEXT.search(line[:200]):
                yield line


def _milliseconds(runtime: Runtime, call: Callable[[], object]) -> float:
    begun = runtime.monotonic()
    call()
    return (runtime.monotonic() - begun) * 1000


def _spread(values: list[float]) -> dict[str, float]:
    return {
        "least": round(min(values), 2),
        "median": round(median(values), 2),
        "most": round(max(values), 2),
    }


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
