"""What a first start makes: an administrator, and a repository to try things in."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from lakebed.auth import AlreadySetUp, KeyPair
from lakebed.block import Namespace
from lakebed.graveler.errors import NotUnique
from lakebed.server.app import open_services
from lakebed.server.sample import add_sample
from lakebed.server.services import Services
from lakebed.server.settings import ServerSettings

ADMIN: Final = "admin"
REPOSITORY: Final = "sample"
PAIR: Final = KeyPair(
    access_key_id="AKIAIOSFOLQUICKSTART",
    secret_access_key="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",  # noqa: S106 - known to all
)
"""Known to everyone, from tutorials: it only ever opens a server on loopback."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What was there after a start."""

    new_pair: KeyPair | None
    """The administrator's keys, if this start made them."""


def prepare(settings: ServerSettings, *, pair: KeyPair | None, sample: bool) -> Prepared:
    """Set a new installation up; one that is there already stays as it is.

    Args:
        settings: Of the server.
        pair: The administrator's keys; None: drawn, and told only this once.
        sample: Whether to make the sample repository, in a new installation.
    """
    services = open_services(settings)
    try:
        with suppress(AlreadySetUp):
            created = services.auth.setup(ADMIN, pair)
            if sample:
                _make_sample(services)
            return Prepared(
                KeyPair(
                    access_key_id=created.access_key_id,
                    secret_access_key=created.secret_access_key,
                )
            )
        return Prepared(None)
    finally:
        services.close()


def _make_sample(services: Services) -> None:
    prefix = services.settings.blockstore.default_namespace_prefix
    with suppress(NotUnique):  # someone was faster
        made = services.graveler.repositories.create(
            REPOSITORY, Namespace.parse(f"{prefix}/{REPOSITORY}"), committer=ADMIN
        )
        add_sample(services, made, committer=ADMIN)
