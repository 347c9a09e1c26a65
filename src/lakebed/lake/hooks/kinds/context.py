"""What every kind of hook gets."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from lakebed.lake.hooks.deadline import Deadline
from lakebed.lake.hooks.events import HookEvent
from lakebed.lake.hooks.files import HookSpec
from lakebed.lake.hooks.outputs import HookOutput
from lakebed.lake.hooks.secrets import Environment
from lakebed.lake.hooks.settings import HookLimits

OBJECT_BYTES_MAX: Final = 32 << 20
"""The largest object that a hook may read by `Caller`."""


class Caller(Protocol):
    """What a hook may ask of the server, as the user who triggered the event.

    Every call checks the permissions of that user, and that the repository is still the one of
    the event.
    """

    @property
    def depth(self) -> int:
        """In how many hooks, each called by another, the event of these hooks happened."""

    def call(self, name: str, arguments: Mapping[str, Any]) -> tuple[int, Any]:
        """Do one call of Lua's ``lakefs`` package.

        Names and arguments (those marked ? may be missing):

        - ``create_tag``: repository, reference, tag
        - ``diff_refs``: repository, left, right, after?, prefix?, delimiter?, amount?
        - ``list_objects``: repository, reference, after?, prefix?, delimiter?, amount?,
          user_metadata?
        - ``get_object``: repository, reference, path; more than `OBJECT_BYTES_MAX` is a 413
        - ``stat_object``: repository, reference, path, user_metadata?
        - ``diff_branch``: repository, branch, after?, amount?, prefix?, delimiter?
        - ``update_object_user_metadata``: repository, branch, path, metadata

        All are texts but amount (an integer), user_metadata (a boolean) and metadata (texts by
        their names).

        Returns:
            The status of the REST API, and its body: ``bytes`` for ``get_object`` that succeeded,
            else what JSON can hold. It raises nothing: an error is a status and a message.
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
        """What the hook is told about the event."""
        return self.event.payload(action_name=self.spec.action_name, hook_id=self.spec.id)


def to_json(value: object) -> bytes:
    """Return a value as JSON, in ASCII."""
    return json.dumps(value, separators=(",", ":")).encode()
