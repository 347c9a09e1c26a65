"""The bundle of facts for a bug report: read-only and without secrets.

Facts are gathered section by section. A failed section contains the reason, and independent
sections go on. Only Lakebed's own records and files are read, never objects.
"""

import json
import os
import platform
import re
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from lakebed import __version__
from lakebed.base.runtime import Runtime, now_us, to_datetime
from lakebed.block import BlockStore, open_block
from lakebed.clients.diagnostics import health
from lakebed.clients.diagnostics.fsck import RepositoryCheck
from lakebed.clients.diagnostics.survey import AHEAD_US, Survey, Surveyor
from lakebed.kv import Store
from lakebed.lake.hooks.settings import HookLimits
from lakebed.server.http.logs import mask_secrets
from lakebed.server.settings import MASK, ServerSettings, masked

SHORTEST: Final = 4
SHORTEST_VARIABLE: Final = 8
"""Shorter values are unlikely to be secrets, and would match everywhere."""

_SECRET_NAME: Final = re.compile(r"(?i)password|passwd|secret|token|key|credential|signature")
_PASSWORD: Final = re.compile(r"(?<=://)[^/?#:]*:(.*)@")


class SecretMasker:
    """Masker of an installation's secrets.

    Args:
        settings: Settings of the server; None if unreadable.
        environment: Environment variables; variables with secret names, and those for hooks, are
            secret.
    """

    def __init__(self, settings: ServerSettings | None, environment: Mapping[str, str]) -> None:
        hooks = HookLimits() if settings is None else settings.hooks
        found = {
            value
            for name, value in environment.items()
            if len(value) >= SHORTEST_VARIABLE
            and (_SECRET_NAME.search(name) or name.startswith(hooks.env.prefix))
        }
        if settings is not None:
            found.update(_secret_settings(settings))
        found |= {password for value in found for password in _passwords(value)}
        # Longest first: a secret may be part of another secret.
        self._secrets = sorted(
            (value for value in found if len(value) >= SHORTEST), key=len, reverse=True
        )

    def text(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return mask_secrets(text)

    def data(self, data: object) -> object:
        """Mask the secrets in plain data, also in names."""
        if isinstance(data, str):
            return self.text(data)
        if isinstance(data, Mapping):
            return {self.text(str(name)): self.data(value) for name, value in data.items()}
        if isinstance(data, list | tuple):
            return [self.data(each) for each in data]
        if data is None or isinstance(data, bool | int | float):
            return data
        return self.text(str(data))


def _secret_settings(settings: Any) -> Iterator[str]:
    for each in fields(settings):
        value = getattr(settings, each.name)
        if is_dataclass(value):
            yield from _secret_settings(value)
        elif not each.repr and isinstance(value, str):
            yield value


def _passwords(value: str) -> Iterator[str]:
    """Yield the passwords in a URL, raw and unquoted, as libraries print both."""
    for password in _PASSWORD.findall(value):
        yield from (password, unquote(password))


ResultT = TypeVar("ResultT")

SAMPLE: Final = 20
"""Metaranges and ranges to read in each repository, unless `deep`."""


@dataclass(frozen=True, slots=True)
class BundleRequest:
    """Options of a bundle.

    Args:
        settings: Loads the settings, which may be broken.
        open_store: Opens the database for reading.
        environment: The environment variables.
        log: The server's log; None means the one in the settings.
        deep: Whether to read all files of all commits.
    """

    settings: Callable[[], ServerSettings]
    open_store: Callable[[str], Store]
    environment: Mapping[str, str]
    log: Path | None = None
    deep: bool = False


@dataclass(slots=True)
class Bundle:
    """Sections by name, and notes for the reader."""

    runtime: Runtime
    sections: dict[str, object] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    masker: SecretMasker = field(init=False)

    def add(self, name: str, gather: Callable[[], ResultT]) -> ResultT | None:
        """Gather a section; return its content, or None after a failure."""
        try:
            found = gather()
        except Exception as error:  # noqa: BLE001 - the other sections are gathered
            self.fail(name, f"{type(error).__name__}: {error}")
            return None
        self.sections[name] = found
        return found

    def fail(self, name: str, why: str) -> None:
        self.sections[name] = {"failed": why}
        self.notes.append(f"cannot gather {name}: {why}")

    def write(self, file: Path) -> None:
        """Write the bundle as a new zip file readable only by its owner."""
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with (
            os.fdopen(handle, "wb") as out,
            zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made,
        ):
            for name, content in {"summary": self._summary(), **self.sections}.items():
                text = json.dumps(self.masker.data(content), indent=2, ensure_ascii=False)
                made.writestr(f"lakebed-diagnose/{name}.json", text + "\n")

    def _summary(self) -> dict[str, object]:
        return {
            "made_at": to_datetime(now_us(self.runtime)).isoformat(timespec="seconds"),
            "lakebed": __version__,
            "look_at": self.notes,
        }


def make_bundle(request: BundleRequest, runtime: Runtime) -> Bundle:
    """Gather all sections."""
    bundle = Bundle(runtime)
    bundle.masker = SecretMasker(None, request.environment)
    bundle.add("versions", _versions)
    with ExitStack() as stack:
        _Gathering(bundle, request, runtime, stack).run()
    return bundle


@dataclass(slots=True)
class _Gathering:
    bundle: Bundle
    request: BundleRequest
    runtime: Runtime
    stack: ExitStack
    survey: Survey = field(default_factory=Survey)

    def run(self) -> None:
        bundle = self.bundle
        settings = bundle.add("settings", self.request.settings)
        if settings is None:
            return
        bundle.masker = SecretMasker(settings, self.request.environment)
        bundle.sections["settings"] = masked(settings)
        log = self.request.log or settings.logging.file
        if log is not None:
            bundle.add("log", lambda: health.log_facts(log))
        store = self._open("database", lambda: self.request.open_store(settings.database.url))
        block = self._open(
            "storage", lambda: open_block(settings.blockstore.block, runtime=self.runtime)
        )
        if store is not None:
            self._gather_records(store)
        if store is not None and block is not None:
            bundle.add("files", lambda: list(self._checked(store, block)))
        if block is not None:
            self._gather_storage(block, settings)
        bundle.add(
            "clocks", lambda: health.clock_facts(settings, self.survey.ahead_us, self.runtime)
        )
        self._summarize_findings()

    def _open(
        self, name: str, opener: Callable[[], AbstractContextManager[ResultT]]
    ) -> ResultT | None:
        try:
            return self.stack.enter_context(opener())
        except Exception as error:  # noqa: BLE001 - the other sections are gathered
            self.bundle.fail(name, f"{type(error).__name__}: {error}")
            return None

    def _gather_records(self, store: Store) -> None:
        bundle = self.bundle
        bundle.add("database", lambda: health.database_facts(store, self.runtime))
        try:
            Surveyor(store, self.runtime, self.survey).run()
        except Exception as error:  # noqa: BLE001 - the records read so far are reported
            bundle.notes.append(f"could not read all records: {error}")
        bundle.add("records", self.survey.record_facts)
        bundle.add("branches", lambda: self.survey.branch_facts(now_us(self.runtime)))
        bundle.add("stuck", lambda: self.survey.stuck)
        bundle.add("cleaner", self.survey.cleaner_facts)

    def _gather_storage(self, block: BlockStore, settings: ServerSettings) -> None:
        known = self.survey.repositories
        self.bundle.add(
            "storage", lambda: health.storage_facts(block, settings, known, self.runtime)
        )
        self.bundle.add("garbage_collection", lambda: health.gc_facts(block, known))

    def _checked(self, store: Store, block: BlockStore) -> Iterator[dict[str, object]]:
        sample = None if self.request.deep else SAMPLE
        for name in sorted(self.survey.repositories):
            try:
                check = RepositoryCheck(store, block, self.runtime, name, sample=sample)
                report = check.run()
            except Exception as error:  # noqa: BLE001 - the other repositories are read
                yield {"repository": name, "failed": f"{type(error).__name__}: {error}"}
                continue
            if report.damages:
                self.bundle.notes.append(f"repository {name}: {len(report.damages)} problems")
            yield asdict(report)

    def _summarize_findings(self) -> None:
        survey, notes = self.survey, self.bundle.notes
        if survey.damaged_count:
            notes.append(f"{survey.damaged_count} records are damaged, see records.json")
        if survey.stuck:
            notes.append(
                f"{len(survey.stuck)} tasks have stopped reporting progress, see stuck.json"
            )
        if self.bundle.sections.get("branches"):
            notes.append("some branches have many or old uncommitted changes, see branches.json")
        if survey.ahead_us > AHEAD_US:
            notes.append(
                f"a record is {survey.ahead_us / 1e6:.0f} s in the future: check the clocks of the"
                " servers and of this machine"
            )


def _versions() -> dict[str, object]:
    return {
        "lakebed": __version__,
        "python": sys.version,
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "packages": dict(sorted(_packages())),
    }


def _packages() -> Iterator[tuple[str, str]]:
    for each in distributions():
        name = each.metadata["Name"]
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue
