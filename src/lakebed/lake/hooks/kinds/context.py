"""Context of a hook, common to all kinds."""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from lakebed.lake.hooks.deadline import Deadline
from lakebed.lake.hooks.errors import HookFailed
from lakebed.lake.hooks.events import HookEvent
from lakebed.lake.hooks.files import HookSpec
from lakebed.lake.hooks.outputs import HookOutput
from lakebed.lake.hooks.settings import EnvironmentSettings, HookLimits

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


OBJECT_BYTES_MAX: Final = 32 << 20
"""Maximum size of an object read through `Caller`."""


class Caller(Protocol):
    """The server API available to a hook, acting as the user who triggered the event.

    Every call checks the permissions of that user, and that the repository is still the event's.
    """

    @property
    def depth(self) -> int:
        """Nesting depth: the number of hooks whose operations led to the event."""

    def call(self, name: str, arguments: Mapping[str, Any]) -> tuple[int, Any]:
        """Execute a call of Lua's ``lakefs`` package.

        Names and arguments (? marks optional arguments):

        - ``create_tag``: repository, reference, tag
        - ``diff_refs``: repository, left, right, after?, prefix?, delimiter?, amount?
        - ``list_objects``: repository, reference, after?, prefix?, delimiter?, amount?,
          user_metadata?
        - ``get_object``: repository, reference, path; 413 for more than `OBJECT_BYTES_MAX`
        - ``stat_object``: repository, reference, path, user_metadata?
        - ``diff_branch``: repository, branch, after?, amount?, prefix?, delimiter?
        - ``update_object_user_metadata``: repository, branch, path, metadata

        All are strings except amount (an integer), user_metadata (a boolean) and metadata (strings
        by name).

        Returns:
            Status and body of the REST API: ``bytes`` for a successful ``get_object``, otherwise a
            JSON value. Never raises: an error is a status with a message.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class HookContext:
    """A hook to run, with its event, settings and deadline."""

    spec: HookSpec
    event: HookEvent
    caller: Caller
    output: HookOutput
    settings: HookLimits
    deadline: Deadline
    environment: Environment

    @property
    def payload(self) -> dict[str, object]:
        """The event as sent to the hook."""
        return self.event.payload(action_name=self.spec.action_name, hook_id=self.spec.id)


def to_json(value: object) -> bytes:
    """Encode a value as JSON, in ASCII."""
    return json.dumps(value, separators=(",", ":")).encode()
