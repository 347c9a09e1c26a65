"""An HTTP/1.1 server for WSGI applications that store objects; a library of its own (README.md).

It imports nothing else of Lakebed; the application and the limits come in as arguments. Public:
`WSGIServer`, `HTTPLimits`, `ClientCut`, `FileRegion`, `RequestBody`, `BodyCutError`,
`FramingError`, `TLSContext`, `listen`.

- `heads`: parses the head of a request, and refuses malformed ones;
- `bodies`: the body of a request, as ``wsgi.input``;
- `responses`: the head of a response;
- `connection`: one connection and its state between requests;
- `tls`: TLS sockets, and a certificate that can be renewed;
- `leader`: the leader/followers thread pool;
- `listening`: the listening socket, which several processes can share;
- `server`: accepts connections and serves them.
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
