"""Serves an application that an expression makes, as gunicorn does."""

import signal
import sys
from importlib import import_module

from lakebed.httpd import WSGIServer, listen


def main(entry: str, port: str) -> None:
    """Serve until SIGTERM."""
    module, _, call = entry.partition(":")
    app = eval(call, vars(import_module(module)))
    server = WSGIServer(app, listen("127.0.0.1", int(port)))
    signal.signal(signal.SIGTERM, server.stop)
    server.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
