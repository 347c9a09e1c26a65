"""The composition root: from settings to a WSGI application, in each worker process."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final
from wsgiref.types import WSGIApplication

import falcon

from lakebed.auth import AuthService, AuthSettings, ServerKeys
from lakebed.block import open_block
from lakebed.builders import Builders
from lakebed.catalog.catalog import Catalog
from lakebed.catalog.tasks import RunInBackground
from lakebed.engine.engine import Engine
from lakebed.kv import open_store
from lakebed.runtime import ThreadRuntime
from lakebed.server.api.dispatch import responder
from lakebed.server.api.operations import ROUTES
from lakebed.server.http.admission import Admission
from lakebed.server.http.client_address import TrustedProxies
from lakebed.server.http.envelope import Envelope
from lakebed.server.http.paths import CheckedPaths
from lakebed.server.http.presigned import PresignedDoor
from lakebed.server.http.url_signer import PATH, URLSigner
from lakebed.server.s3.gateway import Gateway
from lakebed.server.services import Foundation, Services
from lakebed.server.settings import WELL_KNOWN_KEY_ID, ServerSettings
from lakebed.server.ui import pages

BASE_PATH: Final = "/api/v1"


def create(settings: ServerSettings) -> WSGIApplication:
    """Return the application of one worker process."""
    return build(open_services(settings))


def run_in_thread(work: Callable[[], None]) -> None:
    """Run a task beside the requests; should the process end first, the task has failed."""
    threading.Thread(target=work, daemon=True, name="task").start()


def open_services(
    settings: ServerSettings, *, run_in_background: RunInBackground = run_in_thread
) -> Services:
    """Open what the settings name, and put the parts together."""
    runtime = ThreadRuntime()
    url, storage = settings.database.url, settings.blockstore.block
    store = open_store(url, runtime=runtime)
    block = open_block(storage, runtime=runtime)
    # Another process would not see what is in the memory of this one.
    build_large = None
    if not settings.in_memory:
        processes = settings.processes.builders
        build_large = Builders(url, storage, processes=processes, cache=settings.cache).build
    keys = ServerKeys.derive(settings.auth.key())
    signer = URLSigner(keys.signing)
    engine = Engine(
        store,
        block,
        runtime=runtime,
        settings=settings.engine,
        cache=settings.cache,
        build_large=build_large,
    )
    return Services(
        settings=settings,
        runtime=runtime,
        catalog=Catalog(
            engine,
            store,
            block,
            runtime,
            settings.gc,
            run_in_background=run_in_background,
            sign=signer.sign,
        ),
        auth=AuthService(
            store,
            runtime,
            keys=keys,
            settings=AuthSettings(
                refused=frozenset(() if settings.listen.is_loopback else (WELL_KNOWN_KEY_ID,))
            ),
        ),
        signer=signer,
        foundation=Foundation(store=store, block=block, engine=engine),
    )


def build(services: Services) -> WSGIApplication:
    """Return the application that serves all operations and pages."""
    app = falcon.App()
    admission = Admission(services.settings.limits)
    by_path: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        name = f"on_{route.method.lower()}"
        respond = responder(route, services, admission)
        by_path.setdefault(BASE_PATH + route.path, {})[name] = respond
    for path, responders in by_path.items():
        app.add_route(path, SimpleNamespace(**responders))
    app.add_route(PATH + "{token}", PresignedDoor(services, admission))
    pages.add_pages(app, ROUTES, base_path=BASE_PATH)
    app.set_error_serializer(pages.serialize_error)
    proxies = TrustedProxies(services.settings.listen.trusted_proxies)
    return Envelope(Gateway(services, admission, CheckedPaths(app)), proxies)
