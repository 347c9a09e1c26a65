"""Reading the action files of a commit, and selecting the actions of an event.

An invalid file refuses the operation, so files are fully validated here without running a hook.
Unknown fields are errors: a hook with a typo in ``if`` would silently never run.

Most repositories have no action files. Finding that out costs one lookup in one range, which a
committer has in memory, and is cached per metarange.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lakebed.base.lru import LRU
from lakebed.base.runtime import Runtime, UniqueID
from lakebed.engine.committed import EntryQuery
from lakebed.engine.engine import Engine
from lakebed.engine.errors import EntryNotFound
from lakebed.engine.model import Repository
from lakebed.formats import Entry, MetaRangeID
from lakebed.lake.catalog import Catalog
from lakebed.lake.etag_pins import with_pin
from lakebed.lake.hooks.conditions import (
    InvalidCondition,
    InvalidPattern,
    check_pattern,
    evaluate,
    matches,
)
from lakebed.lake.hooks.errors import InvalidAction
from lakebed.lake.hooks.events import EventType
from lakebed.lake.hooks.properties import (
    TYPES,
    HookType,
    InvalidProperties,
    check_properties,
    read_timeout,
)
from lakebed.lake.hooks.yaml_reader import InvalidYaml, Node, Scalar, plain, read_yaml

FOLDER: Final = "_lakefs_actions/"
"""Prefix of action files: all objects directly below it, whatever their suffix."""
FILE_BYTES_MAX: Final = 512 << 10
"""Maximum size of an action file."""
HOOKS_MAX: Final = 100
"""Maximum number of hooks per action."""
PRE_SECONDS_MAX: Final = 540.0
"""Maximum total time of an action's hooks if a request waits for them."""
POST_SECONDS_MAX: Final = 6 * 3600.0
"""Maximum total time of an action's hooks in the background."""

_NAME: Final = re.compile(r"\w[\w\-. ]+", re.ASCII)
_NAME_LENGTH_MAX: Final = 255
_HOOK_ID: Final = re.compile(r"[_a-zA-Z][\-_a-zA-Z0-9]{1,255}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSpec:
    """A hook of an action file, with validated properties."""

    action_name: str
    id: str
    type: HookType
    description: str = ""
    condition: str = ""
    """The text of ``if``; see `lakebed.lake.hooks.conditions`."""
    timeout_seconds: float = 60.0
    """Maximum run time."""
    properties: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionFile:
    """A parsed action file."""

    path: str
    name: str
    description: str = ""
    events: Mapping[EventType, tuple[str, ...]]
    """Branch patterns per event; no pattern means all branches."""
    hooks: tuple[HookSpec, ...]


def parse_action(path: str, content: bytes) -> ActionFile:
    """Parse an action file; raise `InvalidAction` if it is invalid."""
    if len(content) > FILE_BYTES_MAX:
        raise InvalidAction(path, f"the file has more than {FILE_BYTES_MAX} bytes")
    try:
        return _read_action(path, read_yaml(content))
    except (_Wrong, InvalidYaml) as error:
        raise InvalidAction(path, str(error)) from None


def check_names(actions: Iterable[ActionFile]) -> None:
    """Raise `InvalidAction` if two actions have the same name."""
    seen: dict[str, ActionFile] = {}
    for action in actions:
        first = seen.setdefault(action.name, action)
        if first is not action:
            reason = f"its name {action.name!r} is already used by {first.path}: rename one"
            raise InvalidAction(action.path, reason)


class _Wrong(ValueError):
    """An error in an action file; the message gives place and reason."""


def _read_action(path: str, node: Node) -> ActionFile:
    fields = _fields(node, "the file", {"name", "description", "on", "hooks"})
    name = _text(fields, "name")
    if not name:
        raise _Wrong("name is missing")
    if len(name) > _NAME_LENGTH_MAX or not _NAME.fullmatch(name):
        raise _Wrong(
            f"name is {name!r}: use 2 to {_NAME_LENGTH_MAX} letters, digits, '_', '-', '.' and"
            " spaces, beginning with a letter, a digit or '_'"
        )
    events = _read_events(fields.get("on"))
    hooks = _read_hooks(name, fields.get("hooks"))
    _check_times(events, hooks)
    return ActionFile(
        path=path, name=name, description=_text(fields, "description"), events=events, hooks=hooks
    )


def _read_events(node: Node | None) -> dict[EventType, tuple[str, ...]]:
    if node is None or _is_null(node):
        raise _Wrong("on is missing: name at least one event, as in `on: {pre-commit: {}}`")
    if not isinstance(node, dict) or not node:
        raise _Wrong("on must have at least one event followed by a colon, as in `pre-commit:`")
    events: dict[EventType, tuple[str, ...]] = {}
    for name, options in node.items():
        if name not in set(EventType):
            raise _Wrong(f"on: unknown event {name!r}: use one of {', '.join(EventType)}")
        event = EventType(name)
        events[event] = () if _is_null(options) else _read_branches(event, options)
    return events


def _read_branches(event: EventType, options: Node) -> tuple[str, ...]:
    fields = _fields(options, f"on.{event}", {"branches"})
    branches = fields.get("branches")
    if branches is None:
        return ()
    if event.is_about_tag:
        raise _Wrong(f"on.{event}: branches does not apply to tags: remove it")
    if _is_null(branches):
        return ()
    if not isinstance(branches, list):
        raise _Wrong(f"on.{event}.branches must be a list of patterns, as in [main, 'release-*']")
    patterns: list[str] = []
    for each in branches:
        if not isinstance(each, Scalar):
            raise _Wrong(f"on.{event}.branches must contain only strings")
        try:
            check_pattern(each.text)
        except InvalidPattern as error:
            raise _Wrong(f"on.{event}.branches: {error}") from None
        patterns.append(each.text)
    return tuple(patterns)


def _read_hooks(action_name: str, node: Node | None) -> tuple[HookSpec, ...]:
    if node is None or _is_null(node):
        return ()
    if not isinstance(node, list):
        raise _Wrong("hooks must be a list")
    if len(node) > HOOKS_MAX:
        raise _Wrong(f"{len(node)} hooks exceed the limit of {HOOKS_MAX}")
    hooks = tuple(
        _read_hook(action_name, f"hooks[{index}]", each) for index, each in enumerate(node)
    )
    for index, hook in enumerate(hooks):
        if hook.id in {before.id for before in hooks[:index]}:
            raise _Wrong(f"hooks[{index}]: duplicate id {hook.id!r}")
    return hooks


def _read_hook(action_name: str, place: str, node: Node) -> HookSpec:
    fields = _fields(node, place, {"id", "type", "description", "if", "properties"})
    hook_id = _text(fields, "id", place)
    if not _HOOK_ID.fullmatch(hook_id):
        raise _Wrong(
            f"{place}: id is {hook_id!r}: use 2 to 256 letters, digits, '_' and '-', beginning with"
            " a letter or '_'"
        )
    place = f"{place} ({hook_id})"
    hook_type = _read_type(place, _text(fields, "type", place))
    condition = _text(fields, "if", place)
    given = plain(fields["properties"]) if "properties" in fields else None
    if not isinstance(given, dict | None):
        raise _Wrong(f"{place}: properties must be a mapping")
    try:
        evaluate(condition, has_failed=False)
        return HookSpec(
            action_name=action_name,
            id=hook_id,
            type=hook_type,
            description=_text(fields, "description", place),
            condition=condition,
            timeout_seconds=read_timeout(given or {}),
            properties=check_properties(hook_type, given or {}),
        )
    except InvalidCondition as error:
        raise _Wrong(f"{place}: if: {error}") from None
    except InvalidProperties as error:
        raise _Wrong(f"{place}: {error}") from None


def _read_type(place: str, text: str) -> HookType:
    for known in TYPES:
        if text == known:
            return known
    raise _Wrong(f"{place}: type is {text!r}: use one of {', '.join(TYPES)}")


def _check_times(events: Mapping[EventType, object], hooks: Iterable[HookSpec]) -> None:
    seconds = sum(hook.timeout_seconds for hook in hooks)
    most = POST_SECONDS_MAX if all(event.is_post for event in events) else PRE_SECONDS_MAX
    if seconds > most:
        raise _Wrong(
            f"the timeouts of its hooks add up to {seconds:g} seconds, more than {most:g}: lower"
            " them"
        )


def _fields(node: Node, place: str, known: set[str]) -> dict[str, Node]:
    if not isinstance(node, dict):
        raise _Wrong(f"{place} must be a mapping, as in `name: value`")
    for name in node:
        if name not in known:
            raise _Wrong(f"{place}: unknown field {name!r}: use {', '.join(sorted(known))}")
    return node


def _text(fields: Mapping[str, Node], name: str, place: str = "") -> str:
    """Return a text as written: ``name: 2024`` is the text 2024."""
    node = fields.get(name)
    if node is None or _is_null(node):
        return ""
    if not isinstance(node, Scalar):
        raise _Wrong(f"{place}: {name} must be a string" if place else f"{name} must be a string")
    return node.text


def _is_null(node: Node) -> bool:
    return isinstance(node, Scalar) and node.value is None


FILES_MAX: Final = 1000
"""Maximum number of action files and folders in `FOLDER`."""
_REMEMBERED: Final = 10_000


class ActionReader:
    """Reads the action files of all repositories. One instance per process."""

    def __init__(self, engine: Engine, catalog: Catalog, runtime: Runtime) -> None:
        self._engine = engine
        self._catalog = catalog
        # Metaranges without action files. Metaranges are immutable.
        self._without: LRU[tuple[UniqueID, MetaRangeID], bool] = LRU(runtime, cost_max=_REMEMBERED)

    def read(self, repository: Repository, metarange_id: MetaRangeID) -> list[ActionFile]:
        """Return the actions of a metarange, in order of their files' paths.

        Raises:
            InvalidAction: A file is invalid, or two actions have the same name.
            BlockError, CatalogError: A file cannot be read.
        """
        known = repository.unique_id, metarange_id
        if self._without.get(known):
            return []
        committed = self._engine.committed(repository)
        if not committed.has_below(metarange_id, FOLDER.encode()):
            self._without.put(known, True)
            return []
        query = EntryQuery(prefix=FOLDER.encode(), delimiter=b"/", amount=FILES_MAX + 1)
        page = committed.list(metarange_id, query)
        if len(page.items) > FILES_MAX:
            # Folders count too: action files beyond the limit would not be read, nor obeyed.
            raise InvalidAction(FOLDER, f"more than {FILES_MAX} files and folders")
        actions = [
            self._parse(repository, item)
            for item in page.items
            if isinstance(item, Entry) and item.key != FOLDER.encode()
        ]
        if actions:
            check_names(actions)
        return actions

    def have_equal_scripts(
        self, repository: Repository, action: ActionFile, left: MetaRangeID, right: MetaRangeID
    ) -> bool:
        """Whether the scripts named by an action are the same objects in two metaranges."""
        committed = self._engine.committed(repository)

        def script(metarange_id: MetaRangeID, path: str) -> Entry | None:
            try:
                return committed.get(metarange_id, path.encode())
            except EntryNotFound:
                return None

        paths = [hook.properties.get("script_path") for hook in action.hooks]
        return all(script(left, path) == script(right, path) for path in paths if path)

    def _parse(self, repository: Repository, entry: Entry) -> ActionFile:
        path = entry.key.decode(errors="replace")
        if entry.size > FILE_BYTES_MAX:
            raise InvalidAction(
                path, f"it has {entry.size} bytes; at most {FILE_BYTES_MAX} are allowed"
            )
        with self._catalog.objects.read(with_pin(repository, entry)) as stream:
            return parse_action(path, b"".join(stream))


def select(actions: Iterable[ActionFile], event_type: EventType, branch: str) -> list[ActionFile]:
    """Return the actions that match an event on a branch, in order; tags have no branch."""
    return [action for action in actions if _is_for(action, event_type, branch)]


def _is_for(action: ActionFile, event_type: EventType, branch: str) -> bool:
    patterns = action.events.get(event_type)
    if patterns is None:
        return False
    return not patterns or any(matches(pattern, branch) for pattern in patterns)
