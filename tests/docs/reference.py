"""Writes the pages of docs/reference from the code: ``python -m tests.docs.reference``."""

import ast
import inspect
import pkgutil
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from prometheus_client import REGISTRY
from prometheus_client.metrics import MetricWrapperBase
from typer.main import get_command

import lakebed
from lakebed.auth import Action
from lakebed.auth.policy.defaults import BASE_GROUPS, BASE_POLICIES
from lakebed.base.errors import LakebedError
from lakebed.clients import cli
from lakebed.server.api.operations import ROUTES
from lakebed.server.api.routes import Access, Route
from lakebed.server.http import errors as http_errors
from lakebed.server.processes.metrics import ProcessMetrics
from lakebed.server.s3 import translation
from lakebed.server.s3.operations import OPERATIONS
from lakebed.server.s3.router import _ON_BUCKET, _ON_OBJECT, _WITH_COPY_SOURCE, S3Operation
from lakebed.server.settings import ServerSettings

_S3_OPERATIONS: Final = "lakebed.server.s3.operations."
ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "docs" / "reference"
_RESOURCES: Final = (
    (
        "a repository",
        "`arn:lakefs:fs:::repository/{repository}`",
    ),
    (
        "a branch, a tag",
        "`arn:lakefs:fs:::repository/{repository}/branch/{branch}`, `…/tag/{tag}`",
    ),
    (
        "an object, on any branch",
        "`arn:lakefs:fs:::repository/{repository}/object/{path}`",
    ),
    (
        "a place in the storage",
        "`arn:lakefs:fs:::namespace/{address}`",
    ),
    (
        "a user, a group, a policy",
        "`arn:lakefs:auth:::user/{user}`, `…:group/{group}`, `…:policy/{policy}`",
    ),
)
"""How policies name what they are about."""
_NOTE: Final = "*Written by `make docs-reference` from the code; a test compares it.*"


def settings_page() -> str:
    """Return the page on the settings of a server."""
    lines = [
        "# Settings of a server",
        _NOTE,
        _said("""
            A setting is in the file of `lakebed run --config lakebed.yaml` (`listen: {port:
            8000}`), in a variable (`LAKEBED_SERVER__LISTEN__PORT=8000`) or in a flag; later
            ones win. `lakebed config check` shows what is in force, and every mistake. A
            setting that is unknown is a mistake.
        """),
    ]
    for section in fields(ServerSettings):
        kind = get_type_hints(ServerSettings)[section.name]
        lines += [f"## {section.name}", _paragraph(kind)]
        defaults = getattr(ServerSettings(), section.name)
        rows = _settings(kind, section.name, defaults)
        lines += ["\n".join(_table("setting", "default", "", rows=rows))]
    return "\n\n".join(lines) + "\n"


def _settings(kind: type, prefix: str, defaults: object) -> Iterator[tuple[str, ...]]:
    """All settings of a class, and of the classes inside of it; `defaults` is one, or None."""
    said = _field_docs(kind)
    hints = get_type_hints(kind)
    for each in fields(kind):
        key = f"{prefix}.{each.name}"
        inside = next((one for one in _alternatives(hints[each.name]) if is_dataclass(one)), None)
        if inside is not None:
            assert isinstance(inside, type)
            yield from _settings(inside, key, getattr(defaults, each.name, None))
            continue
        default = getattr(defaults, each.name, each.default)
        words = said.get(each.name, "")
        assert words, f"{key} needs a docstring: {kind.__module__}.{kind.__name__}"
        choices = [one for one in _alternatives(hints[each.name]) if get_origin(one) is Literal]
        if choices:
            names = [*get_args(choices[0])]
            if bool in _alternatives(hints[each.name]):
                names += ["true", "false"]
            words = f"One of {', '.join(f'`{one}`' for one in names)}. {words}"
        yield f"`{key}`", _default(default), words


def _alternatives(hint: Any) -> tuple[Any, ...]:
    is_choice = get_origin(hint) in {Literal, tuple, dict} or not get_args(hint)
    return (hint,) if is_choice else get_args(hint)


def _default(value: object) -> str:
    if value is MISSING:
        return "required"
    if value is None or value in ((), {}):
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int | float):
        return f"{value:.0f}" if float(value).is_integer() else f"{value:g}"
    return f"`{value}`"


def _field_docs(kind: type) -> dict[str, str]:
    """What a class says below its fields."""
    (tree,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for before, after in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(before, ast.AnnAssign)
            and isinstance(before.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            found[before.target.id] = _plain(str(after.value.value))
    return found


def rest_page() -> str:
    """Return the page on the operations of the REST API."""
    lines = [
        "# REST API",
        _NOTE,
        _said("""
            A server describes its operations in OpenAPI 3.1 at `/openapi.json`, and for people
            at `/docs`, where they can be tried. All paths begin with `/api/v1`. The
            API is that of lakeFS: [what differs](../compatibility.md). Requests are signed in
            by Basic (access key id and secret) or by a token of `POST /auth/login`. Errors have
            a `message`, a [`kind`](errors.md) for programs and, where it helps, a `detail`.
        """),
    ]
    by_tag: dict[str, list[Route]] = defaultdict(list)
    for route in ROUTES:
        by_tag[route.tag].append(route)
    for tag, routes in by_tag.items():
        rows = [
            (
                f"`{route.method} {route.path.replace(':path}', '}')}`",
                f"`{route.operation}`",
                _plain(route.summary),
                _permissions(route),
            )
            for route in routes
        ]
        head = ("request", "operation", "", "permission")
        lines += [f"## {tag}", "\n".join(_table(*head, rows=rows))]
    return "\n\n".join(lines) + "\n"


def _permissions(route: Route) -> str:
    if isinstance(route.needs, Access):
        return route.needs.value
    conditions = {str(need.action): f" with `{need.when}`" for need in route.needs if need.when}
    return ", ".join(f"`{action}`{conditions.get(action, '')}" for action in _actions_of(route))


def _actions_of(route: Route) -> list[str]:
    """The actions that an operation needs, also those that its handler asks for itself."""
    needs = () if isinstance(route.needs, Access) else route.needs
    inside = [Action[name].value for name in _actions_in(inspect.getsource(route.handler))]
    return list(dict.fromkeys([*(str(need.action) for need in needs), *inside]))


def _actions_in(source: str) -> list[str]:
    return [
        name for name in re.findall(r"\bAction\.([A-Z_]+)", source) if name in Action.__members__
    ]


def s3_page() -> str:
    """Return the page on the operations of S3."""
    requests = {
        S3Operation.LIST_BUCKETS: "GET /",
        S3Operation.LIST_OBJECTS_V2: "GET /bucket?list-type=2",
    }
    for place, table in (("/bucket", _ON_BUCKET), ("/bucket/key", _ON_OBJECT)):
        for (method, name), operation in table.items():
            requests[operation] = f"{method} {place}" + (f"?{name}" if name else "")
    for plain, copy in _WITH_COPY_SOURCE.items():
        requests[copy] = f"{requests[plain]}, with x-amz-copy-source"
    rows = [
        (
            each.value,
            f"`{requests[each]}`",
            ", ".join(f"`{action}`" for action in _s3_actions(each)) or "none",
        )
        for each in S3Operation
    ]
    return (
        "\n\n".join(
            [
                "# S3 operations",
                _NOTE,
                _said("""
                    S3 is served at the same address as the API:
                    [how to set a client up](../s3-clients.md), and
                    [what differs](../s3-clients.md#what-differs-from-s3).
                    A bucket is a repository, and a key begins with a branch, a tag or a commit.
                    Other operations of S3 are answered `NotImplemented` or 405.
                """),
                "\n".join(_table("operation", "request", "permission", rows=rows)),
            ]
        )
        + "\n"
    )


def _s3_actions(operation: S3Operation) -> list[str]:
    names: dict[str, None] = {}
    waiting: list[Any] = [OPERATIONS[operation].handle]
    seen: set[Any] = set()
    while waiting:
        function = waiting.pop()
        if function not in seen:
            seen.add(function)
            source = inspect.getsource(function)
            names.update(dict.fromkeys(_actions_in(source)))
            waiting += reversed(_called(source, vars(sys.modules[function.__module__])))
    return [Action[name].value for name in names]


def _called(source: str, known: Mapping[str, Any]) -> list[Any]:
    """Return the functions of S3 operations that some code mentions."""
    found = [
        getattr(known.get(module), name, None) if module else known.get(name)
        for module, name in re.findall(r"\b(?:(\w+)\.)?(\w+)", source)
    ]
    functions = filter(inspect.isfunction, found)
    return [each for each in functions if each.__module__.startswith(_S3_OPERATIONS)]


def permissions_page() -> str:
    """Return the page on the actions that policies allow or deny."""
    used: dict[str, list[str]] = defaultdict(list)
    for route in ROUTES:
        for action in _actions_of(route):
            used[action].append(f"`{route.operation}`")
    for operation in S3Operation:
        for action in _s3_actions(operation):
            used[action].append(f"`s3:{operation.value}`")
    actions = [(f"`{each}`", ", ".join(used[each]) or "nothing yet") for each in Action]
    policies = [
        (name, "; ".join(f"`{', '.join(one.actions)}` on `{one.resource}`" for one in statements))
        for name, statements in BASE_POLICIES.items()
    ]
    groups = [(name, ", ".join(names)) for name, names in BASE_GROUPS.items()]
    return (
        "\n\n".join(
            [
                "# Permissions",
                _NOTE,
                _said("""
                    A policy is a list of statements: an `effect` (`allow` or `deny`), some
                    `action`s and a `resource`; `*` and `?` stand for any characters in both,
                    and `${user}` for who asks. What no statement allows is denied, and a deny
                    counts more than any allow. Policies are attached to users and groups. A
                    statement may ask where the request comes from:
                    [conditions](../operations.md#addresses-of-clients-and-proxies).
                """),
                "\n".join(_table("what", "resource", rows=_RESOURCES)),
                "## All actions",
                "\n".join(_table("action", "needed by", rows=actions)),
                "## Policies that are there at first",
                "\n".join(_table("policy", "allows", rows=policies)),
                "## Groups that are there at first",
                "\n".join(_table("group", "policies", rows=groups)),
            ]
        )
        + "\n"
    )


def metrics_page() -> str:
    """Return the page on the metrics."""
    for file in sorted((ROOT / "src").rglob("*.py")):
        if "prometheus_client import" in file.read_text():
            import_module(".".join(file.relative_to(ROOT / "src").with_suffix("").parts))
    labels = {
        each._name: each._labelnames
        for each in REGISTRY._collector_to_names
        if isinstance(each, MetricWrapperBase)
    }
    endings = {"counter": "_total"}
    found = [*REGISTRY.collect(), *ProcessMetrics(ROOT).collect()]
    rows = sorted(
        (
            f"`{metric.name}{endings.get(metric.type, '')}`",
            metric.type,
            ", ".join(f"`{label}`" for label in labels.get(metric.name, ("role",))),
            _plain(metric.documentation),
        )
        for metric in found
        if metric.name.startswith("lakebed_")
    )
    return (
        "\n\n".join(
            [
                "# Metrics",
                _NOTE,
                _said("""
                    `GET /metrics` answers them for Prometheus, summed over all processes of a
                    server. Which of them deserve an alert is in [Operating a
                    server](../operations.md#metrics). A histogram has `_bucket`, `_count` and
                    `_sum`.
                """),
                "\n".join(_table("metric", "type", "labels", "", rows=rows)),
            ]
        )
        + "\n"
    )


def errors_page() -> str:
    """Return the page on the kinds of errors."""
    rows = [
        (f"`{each.kind}`", str(_status(each)), _s3_code(each), _paragraph(each))
        for each in _errors()
        if _status(each) != http_errors.UNEXPECTED
    ]
    others = [
        (f"`{each.kind}`", _paragraph(each))
        for each in _errors()
        if _status(each) == http_errors.UNEXPECTED
    ]
    return (
        "\n\n".join(
            [
                "# Errors by kind",
                _NOTE,
                _said("""
                    An answer that is an error has a `kind` that does not change from version to
                    version; `message` may. It is in the access log, too. S3 clients get a code
                    of S3 instead.
                """),
                "\n".join(_table("kind", "status", "code of S3", "", rows=rows)),
                "## Kinds that are no answers",
                _said("""
                    These end a command, a job or the start of a server, or are for programs
                    that use parts of Lakebed. Should one reach a client all the same, it is
                    answered 500.
                """),
                "\n".join(_table("kind", "", rows=others)),
            ]
        )
        + "\n"
    )


@cache
def _errors() -> tuple[type[LakebedError], ...]:
    """All errors of the modules that are named for them, and of the APIs' shared parts."""
    places = re.compile(r"lakebed\.(?!testing\b)(.*\.)?errors|lakebed\.server\.http\.\w+")
    for module in pkgutil.walk_packages(lakebed.__path__, "lakebed."):
        if places.fullmatch(module.name):
            import_module(module.name)

    def below(root: type[LakebedError]) -> Iterator[type[LakebedError]]:
        for child in root.__subclasses__():
            yield child
            yield from below(child)

    found = {each.kind: each for each in below(LakebedError) if places.fullmatch(each.__module__)}
    return tuple(found[kind] for kind in sorted(found))


def _status(error: type[LakebedError]) -> int:
    found = (status for kind, status in http_errors._STATUSES if issubclass(error, kind))
    return next(found, http_errors.UNEXPECTED)


def _s3_code(error: type[LakebedError]) -> str:
    found = (f"`{code.code}`" for kind, code in translation._CODES if issubclass(error, kind))
    return next(found, "")


def _paragraph(thing: type) -> str:
    """The first paragraph that a class says of itself."""
    return _plain(inspect.cleandoc(thing.__doc__ or "").partition("\n\n")[0])


def _said(text: str) -> str:
    """A paragraph, without the breaks of its lines here."""
    return " ".join(text.split())


def _plain(text: str) -> str:
    """Text of a docstring for a cell of a table."""
    return " ".join(text.replace("``", "`").replace("|", "\\|").split())


def _table(*head: str, rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


_EVERYWHERE: Final = frozenset(
    {"--json", "--endpoint", "--config", "--base-uri", "--no-color", "--verbose", "--log-level"}
)
"""Options that all commands for clients have; docs/command-line.md explains them."""


def commands_page() -> str:
    """Return the page on all commands and their options."""
    lines = [
        "# Commands and options",
        _NOTE,
        _said(f"""
            [The command line](../command-line.md) says how they work together, and what the options
            do that most of them have: {", ".join(f"`{each}`" for each in sorted(_EVERYWHERE))}.
        """),
    ]
    for words, command in sorted(_commands(get_command(cli.app), "lakebed")):
        lines.append(f"## {words}")
        lines += map(_part_of_help, inspect.cleandoc(command.help).split("\n\n"))
        rows = [_parameter(each) for each in command.params if not _is_everywhere(each)]
        if rows:
            lines.append("\n".join(_table("argument or option", "", rows=rows)))
    return "\n\n".join(lines) + "\n"


def _commands(group: Any, *words: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if command.hidden:
            continue
        if hasattr(command, "commands"):
            yield from _commands(command, *words, name)
        if not hasattr(command, "commands") or command.invoke_without_command:
            yield " ".join([*words, name]), command


def _is_everywhere(parameter: Any) -> bool:
    return parameter.hidden or not _EVERYWHERE.isdisjoint(parameter.opts)


def _part_of_help(text: str) -> str:
    """Return a paragraph, or examples as they are typed."""
    if text.startswith("lakebed "):
        return "\n".join(f"    {line.strip()}" for line in text.splitlines())
    return _plain(text)


def _parameter(parameter: Any) -> tuple[str, str]:
    """Return how a parameter is written, and what it is for."""
    value, words = parameter.metavar or parameter.name.upper(), _plain(parameter.help or "")
    if parameter.param_type_name == "argument":
        return f"`{value if parameter.required else f'[{value}]'}`", words
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    name = names if parameter.is_flag else f"{names} {value}"
    return f"`{name}`", f"{words} Required." if parameter.required else words


PAGES: Final[dict[str, Callable[[], str]]] = {
    "commands.md": commands_page,
    "errors.md": errors_page,
    "metrics.md": metrics_page,
    "permissions.md": permissions_page,
    "rest.md": rest_page,
    "s3.md": s3_page,
    "settings.md": settings_page,
}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, write in PAGES.items():
        (FOLDER / name).write_text(write())
