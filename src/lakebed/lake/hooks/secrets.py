"""``{{ ENV.NAME }}`` in action files: secrets from the server's environment."""

import os
import re
from collections.abc import Callable, Mapping
from typing import Final

from lakebed.lake.hooks.errors import HookFailed
from lakebed.lake.hooks.settings import EnvironmentSettings

_OWN_PREFIX: Final = "LAKEBED_"
"""Variables of the server itself are never available, whatever the configured prefix."""
_PLACE: Final = re.compile(r"\{\{ ?ENV\.(.*?) ?\}\}")


class Environment:
    """Substitutes variables in texts, and passes each substituted value to `hide`."""

    def __init__(
        self,
        settings: EnvironmentSettings,
        hide: Callable[[str], None],
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._settings = settings
        self._hide = hide
        self._variables = os.environ if variables is None else variables

    def fill(self, value: object) -> object:
        """Return a value with each ``{{ ENV.NAME }}`` replaced, also in nested values.

        Raises `HookFailed` if an available variable is not set.
        """
        if isinstance(value, str):
            return self.fill_text(value)
        if isinstance(value, list):
            return [self.fill(each) for each in value]
        if isinstance(value, dict):
            return {name: self.fill(each) for name, each in value.items()}
        return value

    def fill_text(self, text: str) -> str:
        """Return a text with each ``{{ ENV.NAME }}`` replaced; see `fill`."""
        return _PLACE.sub(lambda found: self._value(found[1].strip()), text)

    def _value(self, name: str) -> str:
        # Unavailable names read as empty, so that scripts cannot probe which variables exist.
        is_given = name.startswith(self._settings.prefix) and not name.startswith(_OWN_PREFIX)
        if not self._settings.enabled or not is_given:
            return ""
        if name not in self._variables:
            raise HookFailed(f"the server's environment has no variable {name}")
        value = self._variables[name]
        self._hide(value)
        return value
