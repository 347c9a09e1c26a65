"""An HTTP/1.1 server for WSGI applications that store objects; a separate library (README.md).

Imports nothing else of Lakebed; the application and the limits are arguments. Public: `WSGIServer`,
`HTTPLimits`, `ClientCut`, `FileRegion`, `RequestBody`, `BodyCutError`, `FramingError`,
`TLSContext`, `listen`.

- `heads`: parses request heads and refuses malformed ones;
- `bodies`: request bodies, as ``wsgi.input``;
- `responses`: response heads;
- `connection`: a connection and its state between requests;
- `tls`: TLS sockets and a renewable certificate;
- `leader`: the leader/followers thread pool;
- `listening`: the listening socket, which several processes can share;
- `server`: accepts and serves connections.
"""

from lakebed.httpd.bodies import BodyCutError, FramingError, RequestBody
from lakebed.httpd.connection import ClientCut, FileRegion
from lakebed.httpd.limits import HTTPLimits
from lakebed.httpd.listening import listen
from lakebed.httpd.server import WSGIServer
from lakebed.httpd.tls import TLSContext

__all__ = [
    "BodyCutError",
    "ClientCut",
    "FileRegion",
    "FramingError",
    "HTTPLimits",
    "RequestBody",
    "TLSContext",
    "WSGIServer",
    "listen",
]
