"""A real HTTP server that webhooks are sent to."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

PATIENCE_SECONDS: Final = 120.0
"""Against waiting for ever."""


class Receiver:
    """A real HTTP server that hooks send to; each path answers a status."""

    def __init__(self) -> None:
        self.bodies: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.statuses: dict[str, int] = {}
        self.gate = threading.Event()
        """Answers are sent while it is set."""
        self.gate.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.bodies.append((self.path, json.loads(raw), dict(self.headers)))
                receiver.gate.wait(PATIENCE_SECONDS)
                self.send_response(receiver.statuses.get(self.path, 200))
                self.send_header("Content-Length", "6")
                self.end_headers()
                self.wfile.write(b"thanks")

            def log_message(self, *_arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
