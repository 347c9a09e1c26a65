"""Calls of hooks to the REST API, as the user who triggered the event.

They run through the code of requests from outside, in this process and without a connection, with
the same permissions, statuses and answers. They have their own slots: a request waiting for a hook
must not block the hook's calls.
"""

import json
from collections.abc import Callable, Mapping
from contextvars import copy_context
from functools import cache
from http import HTTPStatus
from io import BytesIO
from typing import Final
from urllib.parse import quote, urlencode
from wsgiref.types import WSGIApplication

from lakebed.auth import Identity, UserID
from lakebed.base.actor import current_actor
from lakebed.base.errors import LakebedError
from lakebed.engine.errors import RepositoryNotFound
from lakebed.engine.model import RepositoryID
from lakebed.lake.hooks.events import HookEvent
from lakebed.lake.hooks.kinds import OBJECT_BYTES_MAX, Caller
from lakebed.server.http.authentication import HOOK_DEPTH, IDENTITY
from lakebed.server.http.errors import body_of, status_of
from lakebed.server.services import Services

DEPTH_MAX: Final = 3
"""The maximum nesting of hooks: creating a tag in a hook runs the hooks of the tag, and so on. Each
level occupies a process and a slot."""

_API: Final = "/api/v1/repositories/{repository}"
_CALLS: Final[Mapping[str, tuple[str, str]]] = {
    "create_tag": ("POST", "/tags"),
    "diff_refs": ("GET", "/refs/{left}/diff/{right}"),
    "list_objects": ("GET", "/refs/{reference}/objects/ls"),
    "get_object": ("GET", "/refs/{reference}/objects"),
    "stat_object": ("GET", "/refs/{reference}/objects/stat"),
    "diff_branch": ("GET", "/branches/{branch}/diff"),
    "update_object_user_metadata": ("PUT", "/branches/{branch}/objects/stat/user_metadata"),
}


class HookCalls:
    """Factory of callers for events; one per process."""

    def __init__(self) -> None:
        self._services: Services | None = None

    def attach(self, services: Services, build: Callable[[], WSGIApplication]) -> None:
        """Set the target of calls; the application is built at the first call."""
        self._services = services
        self._application = cache(build)

    def caller(self, event: HookEvent) -> Caller:
        assert self._services is not None, "attach must be called first"
        return _Caller(self._services, self._application, event)


class _Caller:
    def __init__(
        self, services: Services, application: Callable[[], WSGIApplication], event: HookEvent
    ) -> None:
        self._services = services
        self._application = application
        self._event = event
        # Conditions of policies apply to a hook as to the request that triggered it. Hooks after
        # the operation have no request: their address is unknown and fails such conditions.
        actor = current_actor()
        self.depth, self._client = actor.hook_depth, actor.address

    def call(self, name: str, arguments: Mapping[str, object]) -> tuple[int, object]:
        """See `Caller.call`."""
        try:
            if name == "create_tag" and self.depth >= DEPTH_MAX:
                raise ValueError(f"hooks are nested more than {DEPTH_MAX} deep")  # noqa: TRY301
            identity = self._identity()
            self._check_repository(str(arguments.get("repository", "")))
            environ = _environ(name, dict(arguments), identity, self._client)
            environ[HOOK_DEPTH] = self.depth + 1
        except LakebedError as error:
            return status_of(error), body_of(error, name)
        except (KeyError, ValueError, TypeError) as error:
            return 400, {"message": f"lakefs.{name}: {error}"}
        # In a new context: this one holds the record of the request that waits for the hook.
        status, body = copy_context().run(_answer, self._application(), environ)
        if name == "get_object" and status < HTTPStatus.MULTIPLE_CHOICES:
            return status, body
        try:
            return status, json.loads(body) if body else None
        except ValueError:
            return status, {"message": body.decode(errors="replace")}

    def _identity(self) -> Identity:
        user = self._services.auth.users.get(self._event.username)
        return Identity(
            user_id=UserID(user.id),
            unique_id=user.unique_id,
            committer=user.committer,
            access_key_id=None,
        )

    def _check_repository(self, repository: str) -> None:
        """Check that the event's repository was not replaced by another of the same name."""
        if repository == self._event.repository_id:
            engine = self._services.foundation.engine
            found = engine.repositories.get(RepositoryID(repository))
            if found.unique_id != self._event.repository_uid:
                raise RepositoryNotFound(RepositoryID(repository))


def _environ(
    name: str, arguments: dict[str, object], identity: Identity, client: str
) -> dict[str, object]:
    method, template = _CALLS[name]
    body: dict[str, object] | None = None
    if name == "create_tag":
        body = {"id": arguments.pop("tag"), "ref": arguments.pop("reference")}
    elif name == "update_object_user_metadata":
        body = {"set": arguments.pop("metadata")}
    path_template = _API + template
    parts = {
        key: str(arguments.pop(key))
        for key in ("repository", "left", "right", "reference", "branch")
        if f"{{{key}}}" in path_template
    }
    query = {key: value for key, value in arguments.items() if value is not None}
    quoted = {key: quote(value, safe="") for key, value in parts.items()}
    raw = b"" if body is None else json.dumps(body).encode()
    environ: dict[str, object] = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        # Decoded, one character per byte, as WSGI requires.
        "PATH_INFO": path_template.format(**parts).encode().decode("latin-1"),
        "RAW_URI": path_template.format(**quoted),
        "QUERY_STRING": urlencode(query),
        "SERVER_NAME": "hooks",
        "SERVER_PORT": "0",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": client,
        "HTTP_HOST": "hooks",
        "CONTENT_LENGTH": str(len(raw)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": BytesIO(raw),
        "wsgi.errors": BytesIO(),
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        IDENTITY: identity,
    }
    if body is not None:
        environ["CONTENT_TYPE"] = "application/json"
    return environ


def _answer(application: WSGIApplication, environ: dict[str, object]) -> tuple[int, bytes]:
    statuses: list[str] = []

    def start(status: str, _headers: object, _exc_info: object = None) -> Callable[[bytes], object]:
        statuses.append(status)
        return lambda _data: None

    chunks = application(environ, start)
    found = bytearray()
    try:
        for chunk in chunks:
            found += chunk
            if len(found) > OBJECT_BYTES_MAX:
                text = f"the answer is larger than {OBJECT_BYTES_MAX} bytes"
                return 413, json.dumps({"message": text}).encode()
    finally:
        close = getattr(chunks, "close", None)
        if close is not None:
            close()
    return int(statuses[-1].partition(" ")[0]), bytes(found)
