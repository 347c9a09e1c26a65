"""The composition root: from settings to a WSGI application, in each worker process."""

import threading
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from typing import Any, Final
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import falcon
from falcon.routing import CompiledRouter

from lakebed.auth import AuthService, AuthSettings, ServerKeys
from lakebed.block import Namespace
from lakebed.builders import Builders
from lakebed.catalog.tasks import RunInBackground
from lakebed.engine.engine import Engine
from lakebed.errors import MissingExtraError
from lakebed.installation.opening import InstallationSettings, open_installation
from lakebed.server.api.dispatch import Operations, add_operations, send_answer
from lakebed.server.api.operations import ROUTES
from lakebed.server.hook_calls import HookCalls
from lakebed.server.http import browsers
from lakebed.server.http.admission import Admission
from lakebed.server.http.browsers import SafeAnswers
from lakebed.server.http.client_address import TrustedProxies
from lakebed.server.http.envelope import BeginSpan, Envelope
from lakebed.server.http.errors import error_answer
from lakebed.server.http.paths import CheckedPaths
from lakebed.server.http.presigned import PART_PATH, PATH, PresignedDoor, URLSigner
from lakebed.server.http.readiness import Readiness, ReadinessDoor
from lakebed.server.http.request import while_waiting
from lakebed.server.processes.children import begin_builder
from lakebed.server.processes.preflight import check_same_storage
from lakebed.server.questions import StorageQuestion, ask_store
from lakebed.server.s3.gateway import Gateway
from lakebed.server.services import Services
from lakebed.server.settings import WELL_KNOWN_KEY_ID, ServerSettings, TracingSettings
from lakebed.server.ui import pages

BASE_PATH: Final = "/api/v1"
_PROBES: Final = frozenset(
    {
        "/_health",
        *(base + path for base in ("", BASE_PATH) for path in ("/healthcheck", "/readiness")),
    }
)


def create(settings: ServerSettings) -> WSGIApplication:
    """Return the application of one worker process."""
    services = open_services(settings)
    if settings.one_process and not settings.in_memory:
        # No process beside this one could open the database.
        keep_up = import_module("lakebed.server.processes.background").keep_up
        threading.Thread(target=keep_up, args=(services,), daemon=True, name="background").start()
    return build(services, begin_tracing(settings.tracing))


def begin_tracing(settings: TracingSettings) -> BeginSpan | None:
    """Turn tracing on in this process, if the settings ask for it; return how requests begin.

    Raises:
        MissingExtraError: The extra is not installed.
    """
    if settings.endpoint is None:
        return None
    try:
        otel = import_module("lakebed.server.otel")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("lakebed"):
            raise
        raise MissingExtraError("tracing", "otel") from error
    begin: BeginSpan = otel.begin_tracing(settings.endpoint).begin
    return begin


def run_in_thread(work: Callable[[], None]) -> None:
    """Run a task beside the requests; should the process end first, the task has failed."""
    threading.Thread(target=work, daemon=True, name="task").start()


def open_services(
    settings: ServerSettings, *, run_in_background: RunInBackground = run_in_thread
) -> Services:
    """Open what the settings name, and put the parts together."""
    url, storage = settings.database.url, settings.blockstore.block
    # Another process would not see what is in the memory of this one, or could not open it.
    builders = None
    if not settings.one_process:
        builders = Builders(
            url,
            storage,
            processes=settings.processes.builders,
            cache=settings.cache,
            begin=partial(begin_builder, settings.logging),
            limit_seconds=settings.engine.scan_limit_seconds,
        )
    keys = ServerKeys.derive(settings.auth.key())
    signer = URLSigner(keys.signing)
    calls = HookCalls()
    opened = open_installation(
        InstallationSettings(
            database_url=url,
            storage=storage,
            gc=settings.gc,
            links=settings.links,
            engine=settings.engine,
            cache=settings.cache,
            hooks=settings.hooks,
        ),
        run_in_background=run_in_background,
        new_caller=calls.caller,
        # Else the background process runs imports and hooks.
        runs_everything=settings.in_memory,
        builders=builders,
        signer=signer,
        while_waiting=while_waiting,
    )
    try:
        check_same_storage(settings, opened.foundation.engine.repositories.list_readable())
    except BaseException:
        opened.close()
        raise
    store, block, engine = (
        opened.foundation.store,
        opened.foundation.block,
        opened.foundation.engine,
    )
    services = Services(
        readiness=Readiness(
            {
                "database": partial(ask_store, store),
                "storage": StorageQuestion(
                    block, settings.blockstore, lambda: _any_namespace(engine)
                ),
            }
        ),
        settings=settings,
        runtime=opened.runtime,
        catalog=opened.catalog,
        actions=opened.actions,
        auth=AuthService(
            store,
            opened.runtime,
            keys=keys,
            settings=AuthSettings(
                refused=frozenset(() if settings.listen.is_loopback else (WELL_KNOWN_KEY_ID,))
            ),
        ),
        signer=signer,
        foundation=opened.foundation,
    )
    calls.attach(services, lambda: build_api(services))
    return services


def _any_namespace(engine: Engine) -> Namespace | None:
    return next((each.namespace for each in engine.repositories.list()), None)


def build(services: Services, begin_span: BeginSpan | None = None) -> WSGIApplication:
    """Return the application that serves all operations and pages."""
    guard = _guard(services)
    admission = Admission(services.settings.limits)
    router = _new_router(services, admission)
    app = falcon.App(router=router)
    # An answer without a body has no type: clients would look for JSON in it.
    app.resp_options.default_media_type = None  # type: ignore[assignment]
    presigned = PresignedDoor(
        services.signer,
        services.foundation.block,
        services.runtime,
        services.settings.limits,
        admission,
    )
    app.add_route(PATH + "{token}", presigned)
    app.add_route(PART_PATH + "{token}", presigned, suffix="part")
    pages.add_pages(app, services, ROUTES, base_path=BASE_PATH)
    for path in ("/readiness", f"{BASE_PATH}/readiness"):
        app.add_route(path, ReadinessDoor(services.readiness))
    app.set_error_serializer(pages.serialize_error)
    app.add_error_handler(Exception, _raise)
    proxies = TrustedProxies(services.settings.listen.trusted_proxies)
    others = CheckedPaths(_Guarded(Operations(router, app), guard))
    gateway = Gateway(services, admission, guard, others)
    return Envelope(SafeAnswers(gateway), proxies, begin_span)


def build_api(services: Services) -> WSGIApplication:
    """Return an application that serves the operations of the API alone, to this process."""
    router = _new_router(services, Admission(services.settings.limits))
    return Envelope(Operations(router, falcon.App(router=router)), TrustedProxies(()))


def _new_router(services: Services, admission: Admission) -> CompiledRouter:
    """Return a table of routes with all operations of the API."""
    router = CompiledRouter()
    add_operations(router, ROUTES, services, admission, base_path=BASE_PATH)
    return router


def _guard(services: Services) -> browsers.Guard:
    listen = services.settings.listen
    # On other addresses the pair of keys that everyone knows is refused.
    accepts = partial(services.auth.accepts, WELL_KNOWN_KEY_ID)
    return browsers.Guard(
        keys_are_known=accepts if listen.is_loopback else lambda: False,
        host=listen.host,
        domain=services.settings.gateways.s3.domain_name,
        api_path=BASE_PATH,
        objects_path=PATH,
        objects_origin=listen.objects_origin,
    )


class _Guarded:
    """Asks the guard before any operation or page; the S3 gateway asks it by itself."""

    def __init__(self, app: WSGIApplication, guard: browsers.Guard) -> None:
        self._app = app
        self._guard = guard

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        # Probes tell nothing, and are answered without a database.
        if environ["PATH_INFO"] not in _PROBES:
            try:
                self._guard.check(environ)
                self._guard.check_origin(environ)
            except Exception as error:  # noqa: BLE001 - the last place that can answer
                return send_answer(environ, start_response, *error_answer(error, "guard"))
        return self._app(environ, start_response)


def _raise(_request: Any, _response: Any, error: Exception, _parameters: Any) -> None:
    """Leave an error to the envelope; Falcon would write a traceback past the log."""
    raise error
