"""The door for presigned URLs of a server whose storage signs none.

Whoever has such a URL needs nothing else. An object can be written by it once: what is there stays.
"""

from http import HTTPStatus
from typing import Final

import falcon

from lakebed.block import Address, AlreadyExists, PutResult
from lakebed.block.ranges import resolve
from lakebed.server.api.dispatch import answer_error
from lakebed.server.http.admission import Admission
from lakebed.server.http.bodies import Body
from lakebed.server.http.conditions import etag, requested_range
from lakebed.server.http.logs import current_trace
from lakebed.server.services import Services

_OPERATION: Final = "presigned"


class PresignedDoor:
    """Serves what was signed."""

    def __init__(self, services: Services, admission: Admission) -> None:
        self._services = services
        self._admission = admission

    def on_get(self, request: falcon.Request, response: falcon.Response, token: str) -> None:
        """Return an object, or a part of it."""
        try:
            address = self._open(request, token)
            found = self._services.foundation.block.head(address)
            wanted = requested_range(request.get_header("Range"))
            offset, length = resolve(wanted, found.size)
            stream = self._services.foundation.block.get(address, byte_range=wanted)
        except Exception as error:  # noqa: BLE001 - the last place that can tell the client
            answer_error(error, _OPERATION, response)
            return
        if wanted is not None:
            response.status = HTTPStatus.PARTIAL_CONTENT
            end = offset + length - 1
            response.set_header("Content-Range", f"bytes {offset}-{end}/{found.size}")
        response.set_header("Accept-Ranges", "bytes")
        response.content_type = "application/octet-stream"
        response.set_stream(stream, length)

    def on_put(self, request: falcon.Request, response: falcon.Response, token: str) -> None:
        """Take an object in."""
        try:
            stored = self._store(request, self._open(request, token))
        except Exception as error:  # noqa: BLE001 - the last place that can tell the client
            answer_error(error, _OPERATION, response)
            return
        response.set_header("ETag", etag(stored.md5))

    def _store(self, request: falcon.Request, address: Address) -> PutResult:
        if self._services.foundation.block.exists(address):
            raise AlreadyExists(address)
        seconds_max = self._services.settings.limits.transfer_seconds
        body = Body(request.env, seconds_max=seconds_max)
        return self._services.foundation.block.put(address, body.chunks())

    def _open(self, request: falcon.Request, token: str) -> Address:
        trace = current_trace()
        assert trace is not None, "requests come in the envelope"
        trace.operation = _OPERATION
        self._admission.admit_transfer(trace)
        return self._services.signer.opened(request.method, token, self._services.runtime.now())
