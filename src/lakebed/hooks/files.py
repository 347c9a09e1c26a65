"""Reading action files."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from lakebed.hooks.events import EventType

FOLDER: Final = "_lakefs_actions/"
"""Action files are the objects right below it, whatever their names end with."""
FILE_BYTES_MAX: Final = 1 << 20
"""The largest action file."""
PRE_SECONDS_MAX: Final = 540.0
"""How long the hooks of one action may take together, if somebody waits for them."""

HookType = Literal["webhook", "airflow", "lua", "command"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSpec:
    """A hook as an action file describes it; its properties are checked."""

    action_name: str
    id: str
    type: HookType
    description: str = ""
    condition: str = ""
    """The text of ``if``; see `lakebed.hooks.conditions`."""
    timeout_seconds: float = 60.0
    """How long it may take."""
    properties: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An action file."""

    path: str
    name: str
    description: str = ""
    events: Mapping[EventType, tuple[str, ...]]
    """For each event the patterns of branches; no pattern: all branches."""
    hooks: tuple[HookSpec, ...]


def parse_action(path: str, content: bytes) -> Action:
    """Read an action file.

    Raises:
        InvalidAction: It cannot be used.
    """
    raise NotImplementedError


def check_names(actions: Iterable[Action]) -> None:
    """Make sure that no two actions have one name.

    Raises:
        InvalidAction: Two have.
    """
    raise NotImplementedError
