"""Masking of known secrets in every text of a bundle."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final
from urllib.parse import unquote

from lakebed.lake.hooks.settings import HookLimits
from lakebed.server.http.logs import mask_secrets
from lakebed.server.settings import MASK, ServerSettings

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
        """Mask the secrets in a text."""
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
