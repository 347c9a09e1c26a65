"""The composition root: from settings to a WSGI application, in each worker process."""

import threading
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from typing import Final
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import falcon
from falcon.routing import CompiledRouter

from lakebed.auth import AuthCacheSettings, AuthService, ServerKeys
from lakebed.base.errors import MissingExtraError
from lakebed.block import Namespace
from lakebed.engine.build_processes import Builders
from lakebed.engine.engine import Engine
from lakebed.installation.opening import InstallationSettings, open_installation
from lakebed.lake.tasks import RunInBackground
from lakebed.server.api.dispatch import Operations, add_operations, send_answer
from lakebed.server.api.operations import ROUTES
from lakebed.server.hook_calls import HookCalls
from lakebed.server.http import browsers
from lakebed.server.http.admission import Admission
from lakebed.server.http.browsers import refuse_path
from lakebed.server.http.cors import CrossOrigin
from lakebed.server.http.errors import error_answer
from lakebed.server.http.pipeline import Act, BeginSpan, Pipeline, Step
from lakebed.server.http.presigned import PART_PATH, PATH, PresignedHandler, URLSigner
from lakebed.server.http.readiness import Readiness, ReadinessHandler
from lakebed.server.http.request import RequestRecord, TrustedProxies, while_waiting
from lakebed.server.probes import StorageProbe, probe_store
from lakebed.server.processes.children import begin_builder
from lakebed.server.processes.preflight import check_same_storage
from lakebed.server.s3.gateway import S3Gateway
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
        # The database allows no second process.
        run_background = import_module("lakebed.server.background").run_background
        threading.Thread(
            target=run_background, args=(services,), daemon=True, name="background"
        ).start()
    return build(services, begin_tracing(settings.tracing))


def begin_tracing(settings: TracingSettings) -> BeginSpan | None:
    """Turn tracing on in this process if configured; return the function that starts spans."""
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
    """Run a task in a thread; it fails if the process ends first."""
    threading.Thread(target=work, daemon=True, name="task").start()


def open_services(
    settings: ServerSettings, *, run_in_background: RunInBackground = run_in_thread
) -> Services:
    """Open the database and the storage of the settings, and assemble the services."""
    url, storage = settings.database.url, settings.blockstore.block
    # A second process could not see data in memory, or not open the database.
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
    admission = Admission(settings.limits)
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
        # Otherwise the background process runs imports and hooks.
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
                "database": partial(probe_store, store),
                "storage": StorageProbe(block, settings.blockstore, lambda: _any_namespace(engine)),
            }
        ),
        settings=settings,
        runtime=opened.runtime,
        catalog=opened.catalog,
        reclaim=opened.reclaim,
        actions=opened.actions,
        admission=admission,
        auth=AuthService(
            store,
            opened.runtime,
            keys=keys,
            settings=AuthCacheSettings(
                refused=frozenset(() if settings.listen.is_loopback else (WELL_KNOWN_KEY_ID,))
            ),
            while_reading=admission.while_signing_in,
        ),
        signer=signer,
        foundation=opened.foundation,
    )
    calls.attach(services, lambda: build_api(services))
    return services


def _any_namespace(engine: Engine) -> Namespace | None:
    return next((each.namespace for each in engine.repositories.list()), None)


def build(services: Services, begin_span: BeginSpan | None = None) -> Pipeline:
    """Return the application that serves all operations and pages.

    The list is the order of processing: the first step that answers a request is the last to see
    it.
    """
    router = _new_router(services, services.admission)
    operations, browser_rules = Operations(router), _browser_rules(services)
    gateway = S3Gateway(services, browser_rules)
    steps = [
        # An AWS signature, or the domain of the gateway. The gateway has its own steps, since S3
        # clients read errors in XML.
        Step("S3", gateway.answer, gateway.applies),
        # Paths that are not UTF-8 or contain a NUL: later steps never see them.
        Step("path", refuse_path),
        # Headers of a browser or an unknown host, on servers that accept the well-known keys.
        Step("browser", _refusing(browser_rules.check), browser_rules.applies),
        # The origin of objects, if configured.
        Step("origin", _refusing(browser_rules.check_origin)),
        # A path and method of the API: credentials, slot, arguments, permissions, handler.
        Step("operation", operations.answer),
        # Pages, probes, presigned URLs, and 404.
        Step.of("page", _pages(services, router)),
    ]
    listen = services.settings.listen
    if listen.objects_origin is None:
        steps = [step for step in steps if step.name != "origin"]
    if listen.cors_origins:
        # Preflights, which browsers send without credentials.
        cors = CrossOrigin(listen.cors_origins)
        steps.insert(0, Step("cors", cors.act, cors.applies))
    proxies = TrustedProxies(listen.trusted_proxies)
    return Pipeline(steps, proxies, begin_span, services.admission.update_metrics)


def build_api(services: Services) -> Pipeline:
    """Return an application for in-process calls, with the operations of the API only."""
    router = _new_router(services, Admission(services.settings.limits))
    others = falcon.App(router=router)
    steps = [Step("operation", Operations(router).answer), Step.of("page", others)]
    return Pipeline(steps, TrustedProxies(()))


def _pages(
    services: Services, router: CompiledRouter
) -> "falcon.App[falcon.Request, falcon.Response]":
    """Return the application of all requests that are no operation of the API."""
    app = falcon.App(router=router)
    # An answer without a body has no type: clients would try to parse JSON.
    app.resp_options.default_media_type = None  # type: ignore[assignment]
    presigned = PresignedHandler(
        services.signer,
        services.foundation.block,
        services.runtime,
        services.settings.limits,
        services.admission,
    )
    app.add_route(PATH + "{token}", presigned)
    app.add_route(PART_PATH + "{token}", presigned, suffix="part")
    pages.add_pages(app, services, ROUTES, base_path=BASE_PATH)
    for path in ("/readiness", f"{BASE_PATH}/readiness"):
        app.add_route(path, ReadinessHandler(services.readiness))
    app.set_error_serializer(pages.serialize_error)
    app.add_error_handler(Exception, _raise)
    return app


def _new_router(services: Services, admission: Admission) -> CompiledRouter:
    router = CompiledRouter()
    add_operations(router, ROUTES, services, admission, base_path=BASE_PATH)
    return router


def _browser_rules(services: Services) -> browsers.BrowserRules:
    listen = services.settings.listen
    # On other addresses the well-known key pair is refused.
    accepts = partial(services.auth.accepts, WELL_KNOWN_KEY_ID)
    return browsers.BrowserRules(
        keys_are_known=accepts if listen.is_loopback else None,
        host=listen.host,
        domain=services.settings.gateways.s3.domain_name,
        api_path=BASE_PATH,
        objects_path=PATH,
        objects_origin=listen.objects_origin,
        cors_origins=listen.cors_origins,
    )


def _refusing(check: Callable[[WSGIEnvironment], None]) -> Act:
    """Return a step that refuses the requests for which `check` raises."""

    def act(
        environ: WSGIEnvironment, start_response: StartResponse, _record: RequestRecord
    ) -> Iterable[bytes] | None:
        # Probes reveal nothing, and are answered without a database.
        if environ["PATH_INFO"] in _PROBES:
            return None
        try:
            check(environ)
        except Exception as error:  # noqa: BLE001 - the last place that can answer
            return send_answer(environ, start_response, *error_answer(error, "guard"))
        return None

    return act


def _raise(_request: object, _response: object, error: Exception, _parameters: object) -> None:
    """Pass an error on to the pipeline; Falcon would write a traceback past the log."""
    raise error
