"""The server of `lakebed quickstart`: settings, secret key and first user of a folder.

On a loopback address the first user gets the well-known key pair of tutorials. On any other address
that pair is refused, and a random pair is created.
"""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from lakebed.auth import AuthNotFound, KeyPair, NewCredential
from lakebed.installation.folder import (
    NAMESPACE_PREFIX,
    SHORT_TIMES,
    database_url,
    storage_settings,
)
from lakebed.lake.places import parse_namespace
from lakebed.server.app import open_services
from lakebed.server.processes.preflight import CannotStart
from lakebed.server.sample import add_sample
from lakebed.server.services import Services
from lakebed.server.settings import WELL_KNOWN_KEY_ID, ListenSettings, ServerSettings

ADMIN: Final = "admin"
SAMPLE: Final = "sample"
_KEY_BYTES: Final = 32
_FOR_OTHERS: Final = 0o077
"""The umask: no permissions for group and others."""


_SHORT_TIMES: Final[dict[str, object]] = {
    "reclaim.enabled": True,
    "limits.transfer_seconds": 1800.0,
    "gc.link_life_seconds": SHORT_TIMES.link_life_seconds,
    "gc.copy_window_seconds": SHORT_TIMES.copy_window_seconds,
    "gc.min_age_seconds": SHORT_TIMES.min_age_seconds,
    "gc.gap_seconds": SHORT_TIMES.gap_seconds,
}
"""Collect garbage on this machine, with the shortest ages that `ServerSettings.check` accepts."""


WELL_KNOWN_PAIR: Final = KeyPair(
    access_key_id=WELL_KNOWN_KEY_ID,
    secret_access_key="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",  # noqa: S106 - known to all
)


def flags_of(folder: Path, host: str, port: int) -> dict[str, object]:
    """Return the settings of a quickstart in a folder, by key."""
    folder = folder.absolute()
    return {
        "listen.host": host,
        "listen.port": port,
        "database.url": database_url(folder),
        "blockstore.type": "local",
        "blockstore.local.root": str(storage_settings(folder).root),
        "blockstore.default_namespace_prefix": NAMESPACE_PREFIX,
        "auth.secret_key": None,
        "auth.secret_key_file": str(folder / "secret.key"),
        "logging.file": str(log_file(folder)),
        **_SHORT_TIMES,
        # Webhooks under development run on this machine.
        "hooks.allow_private_networks": ListenSettings(host=host).is_loopback,
    }


def log_file(folder: Path) -> Path:
    """Return the log file of a quickstart."""
    return folder / "lakebed.log"


def garbage_notice(settings: ServerSettings) -> str:
    """Return a sentence about when the bytes of deleted objects are removed."""
    gc, reclaim = settings.gc, settings.reclaim
    seconds = gc.min_age_seconds + gc.skew_seconds + gc.gap_seconds + reclaim.interval_seconds
    return (
        f"Unreferenced objects are garbage-collected within {seconds / 60:g} minutes, at an age of"
        f" {gc.min_age_seconds / 60:g} minutes or more."
    )


def restrict_access(folder: Path) -> None:
    """Restrict the files of a quickstart to the current user of the machine.

    Sets the umask of this process and its children, and corrects files left by an earlier version.
    """
    os.umask(_FOR_OTHERS)
    for name, mode in (("objects", 0o700), ("lakebed.db", 0o600), ("lakebed.log", 0o600)):
        for path in folder.glob(f"{name}*"):
            with suppress(OSError):  # owned by another user
                path.chmod(mode)


def create_key(folder: Path) -> None:
    """Create a random secret key for an installation, unless it has one."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".secret.key.{secrets.token_hex(4)}"
        handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode=0o600)
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_urlsafe(_KEY_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        # A link, not a rename: an existing key must never be replaced.
        with suppress(FileExistsError):
            os.link(draft, folder / "secret.key")
        draft.unlink()
    except OSError as error:
        raise CannotStart(f"cannot write to {folder}: {error.strerror}") from error


def prepare(settings: ServerSettings, *, sample: bool) -> KeyPair | None:
    """Set up a new installation, and return the administrator's keys if they can be shown.

    A new installation gets an administrator with a key pair and, if `sample`, the sample
    repository. An existing one is unchanged, except on a public address, where an administrator
    with the well-known pair gets another pair, shown only this once.
    """
    given = WELL_KNOWN_PAIR if settings.listen.is_loopback else None
    services = open_services(settings)
    try:
        if not services.auth.is_set_up():
            made = services.auth.setup(ADMIN, given)
            if sample:
                _make_sample(services)
            return _pair(made)
        return _known_pair(services, given)
    finally:
        services.close()


def _known_pair(services: Services, given: KeyPair | None) -> KeyPair | None:
    """Return the keys of an existing installation if its administrator has the well-known pair."""
    keys = services.auth.credentials
    try:
        keys.get(ADMIN, WELL_KNOWN_KEY_ID)
    except AuthNotFound:
        return None
    return given or _pair(keys.create(ADMIN))


def _pair(made: NewCredential) -> KeyPair:
    return KeyPair(access_key_id=made.access_key_id, secret_access_key=made.secret_access_key)


def _make_sample(services: Services) -> None:
    prefix = services.settings.blockstore.default_namespace_prefix or ""
    made = services.catalog.repositories.create(
        SAMPLE, parse_namespace(prefix + SAMPLE), committer=ADMIN
    )
    add_sample(services.catalog, made, committer=ADMIN)
