"""The application for other WSGI servers, with processes and threads of their own.

    gunicorn --worker-class gthread 'lakebed.server.wsgi:make_application("lakebed.yaml")'

docs/deploy.md says what is lost without the server's own processes.
"""

import os
import threading
from dataclasses import replace
from pathlib import Path
from wsgiref.types import WSGIApplication

from lakebed.server.app import begin_tracing, build, open_services
from lakebed.server.background import keep_up
from lakebed.server.config_files import load
from lakebed.server.http import logs
from lakebed.server.processes.preflight import CannotStart
from lakebed.server.settings import ServerSettings


def make_application(config: str | None = None) -> WSGIApplication:
    """Return the application of this process; its background work runs in threads.

    Args:
        config: A file with settings; those of the environment win over it.

    Raises:
        SettingsError: The settings are wrong.
        CannotStart: Only one process can use the database; another server may start several.
    """
    settings = load(None if config is None else Path(config), environment=os.environ)
    _check(settings)
    # The other server chooses the address. Other machines may reach it: keys that everyone knows
    # are refused, as `listen.host` of all addresses has it.
    settings = replace(settings, listen=replace(settings.listen, host=""))
    os.umask(int(settings.processes.umask, 8))
    logs.configure_process(settings.logging)
    services = open_services(settings)
    threading.Thread(target=keep_up, args=(services,), daemon=True, name="background").start()
    return build(services, begin_tracing(settings.tracing))


def _check(settings: ServerSettings) -> None:
    if settings.one_process:
        raise CannotStart(
            "only one process can use this database (database.url): start the server with"
            " `lakebed run`, or use a database that processes share"
        )
    if settings.listen.tls_certificate is not None:
        raise CannotStart(
            "listen.tls_certificate has no effect under another WSGI server: remove it, and set the"
            " certificate there"
        )
