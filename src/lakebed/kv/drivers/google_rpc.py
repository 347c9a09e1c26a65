"""Connections to Google's databases, and the interpretation of their failures."""

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import grpc
from google.api_core.exceptions import DeadlineExceeded, GoogleAPICallError, ServiceUnavailable
from google.auth.exceptions import GoogleAuthError

from lakebed.kv.drivers.failures import Failures
from lakebed.kv.errors import InvalidArgument

ClientT = TypeVar("ClientT")
ResultT = TypeVar("ResultT")

_CHANNEL: Final = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # A retry inside the library could be applied twice, the second time unfenced.
    ("grpc.enable_retries", 0),
    # A separate connection per channel; by default, channels share connections.
    ("grpc.use_local_subchannel_pool", 1),
)
# Statuses of requests refused without a change.
_REFUSALS: Final = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)
_ERRORS: Final = (GoogleAPICallError, GoogleAuthError)
# Messages for requests never sent; the library has no status for this case.
_NOT_SENT: Final = ("failed to connect to all addresses", "Getting metadata from plugin failed")


class Connection(Generic[ClientT]):
    """A client of one of Google's databases.

    Args:
        client: The class of the client.
        emulator: The address of a server other than Google's, which gets no credentials.
        database: The database's name, for messages.
    """

    def __init__(
        self, client: Callable[..., ClientT], *, emulator: str | None, database: str
    ) -> None:
        self._client_class: Any = client
        self._emulator = emulator
        self._database = database
        self._failures = Failures(
            database,
            _ERRORS,
            was_refused=lambda error: getattr(error, "grpc_status_code", None) in _REFUSALS,
            was_not_sent=_was_not_sent,
        )
        self._client: ClientT = self._connect()

    def read(self, call: Callable[[ClientT], ResultT]) -> ResultT:
        """Send a request that changes nothing; without a reply, raise `StoreUnavailable`."""
        return self._failures.read(lambda: self._call(call))

    def write(self, call: Callable[[ClientT], ResultT]) -> ResultT:
        """Send a change.

        Raises:
            StoreUnavailable: The change was refused or never sent, and will not be applied.
            OutcomeUnknown: No reply; the change may have been applied, or may be later.
        """
        try:
            return self._call(call)
        except _ERRORS as error:
            raise self._failures.of_write(error) from error

    def close(self) -> None:
        client: Any = self._client
        client.transport.close()

    def _connect(self) -> Any:
        transport = self._client_class.get_transport_class("grpc")
        try:
            if self._emulator is not None:
                channel = grpc.insecure_channel(self._emulator, _CHANNEL)
                return self._client_class(transport=transport(channel=channel))

            def make_channel(*arguments: object, **options: object) -> grpc.Channel:
                return transport.create_channel(*arguments, **options | {"options": _CHANNEL})

            return self._client_class(transport=transport(channel=make_channel))
        except GoogleAuthError as error:
            raise InvalidArgument(f"no credentials for {self._database}: {error}") from error

    def _call(self, call: Callable[[ClientT], ResultT]) -> ResultT:
        """Send a request on the current connection; after a missing reply, replace the connection.

        All requests share this connection, so a stuck connection blocks all of them. The old
        connection ends with its last waiting request.
        """
        client = self._client
        try:
            return call(client)
        except (DeadlineExceeded, ServiceUnavailable):
            if self._client is client:
                self._client = self._connect()
            raise


def _was_not_sent(error: Exception) -> bool:
    return isinstance(error, GoogleAuthError) or any(each in str(error) for each in _NOT_SENT)
