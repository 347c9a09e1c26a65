"""The application for other WSGI servers, with their own processes and threads.

    gunicorn --worker-class gthread 'lakebed.server.wsgi:make_application("lakebed.yaml")'

docs/deploy.md lists the features lost without the server's own processes.
"""

import os
import threading
from dataclasses import replace
from pathlib import Path
from wsgiref.types import WSGIApplication

from lakebed.server.app import begin_tracing, build, open_services
from lakebed.server.background import run_background
from lakebed.server.config_files import load
from lakebed.server.http import logs
from lakebed.server.processes.preflight import CannotStart
from lakebed.server.settings import ServerSettings


def make_application(config: str | None = None) -> WSGIApplication:
    """Return the application of this process; background work runs in threads.

    Args:
        config: a file with settings; the environment overrides them.

    Raises:
        SettingsError: The settings are invalid.
        CannotStart: The database allows only one process; another server may start several.
    """
    settings = load(None if config is None else Path(config), environment=os.environ)
    _check(settings)
    # The other server chooses the address, perhaps a public one: refuse the well-known keys, as
    # with a `listen.host` of all addresses.
    settings = replace(settings, listen=replace(settings.listen, host=""))
    os.umask(int(settings.processes.umask, 8))
    logs.configure_process(settings.logging)
    services = open_services(settings)
    threading.Thread(
        target=run_background, args=(services,), daemon=True, name="background"
    ).start()
    return build(services, begin_tracing(settings.tracing))


def _check(settings: ServerSettings) -> None:
    if settings.one_process:
        raise CannotStart(
            "the database (database.url) allows only one process: start the server with"
            " `lakebed run`, or use another database"
        )
    if settings.listen.tls_certificate is not None:
        raise CannotStart(
            "listen.tls_certificate has no effect under another WSGI server: remove it, and set the"
            " certificate there"
        )
