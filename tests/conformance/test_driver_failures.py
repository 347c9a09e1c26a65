"""Outcomes of failed writes, by the errors of each database's library.

A write that may have been applied must not become `StoreUnavailable`, which promises that the store
is unchanged.
"""

from typing import Any

import cassandra
import pytest
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.cosmos.exceptions import CosmosHttpResponseError
from cassandra.cluster import NoHostAvailable
from google.api_core.exceptions import BadRequest, ServiceUnavailable
from google.auth.exceptions import RefreshError
from pymongo.errors import (
    AutoReconnect,
    OperationFailure,
    ServerSelectionTimeoutError,
    WriteConcernError,
)
from requests import ConnectionError as BrokenConnection
from urllib3 import HTTPConnectionPool
from urllib3.connection import HTTPConnection
from urllib3.exceptions import MaxRetryError, NewConnectionError, ProtocolError

from lakebed.kv import OutcomeUnknown, StoreUnavailable, StoreUnreachable
from lakebed.kv.drivers import azure_blob, cosmos, gcs, mongodb
from lakebed.kv.drivers.cassandra import client
from lakebed.kv.drivers.failures import Failures
from lakebed.kv.drivers.hbase import driver as hbase
from lakebed.kv.drivers.hbase.driver import SERVICE

AZURE, COSMOS, GCS = azure_blob._FAILURES, cosmos._FAILURES, gcs._FAILURES
MONGODB, CASSANDRA, HBASE = mongodb._FAILURES, client.FAILURES, hbase._FAILURES
POOL = HTTPConnectionPool("localhost")
NO_CONNECTION = BrokenConnection(
    MaxRetryError(POOL, "/", NewConnectionError(HTTPConnection("localhost"), "refused"))
)
BROKEN = BrokenConnection(ProtocolError("reset"))


# Its constructor has no types.
cosmos_reply: Any = CosmosHttpResponseError


def azure_reply(status: int) -> HttpResponseError:
    error = HttpResponseError("failed")
    error.status_code = status
    return error


@pytest.mark.parametrize(
    ("failures", "error", "outcome"),
    [
        (AZURE, azure_reply(400), StoreUnavailable),
        (AZURE, azure_reply(503), OutcomeUnknown),
        (AZURE, ServiceRequestError("failed", error=NO_CONNECTION), StoreUnreachable),
        (AZURE, ServiceRequestError("failed", error=BROKEN), OutcomeUnknown),
        (AZURE, ServiceResponseError("timed out"), OutcomeUnknown),
        (AZURE, ClientAuthenticationError("no token"), StoreUnreachable),
        (COSMOS, cosmos_reply(400), StoreUnavailable),
        (COSMOS, cosmos_reply(408), OutcomeUnknown),
        (COSMOS, cosmos_reply(503), OutcomeUnknown),
        (COSMOS, ServiceRequestError("failed", error=NO_CONNECTION), StoreUnreachable),
        (COSMOS, ServiceResponseError("timed out"), OutcomeUnknown),
        (GCS, BadRequest("failed"), StoreUnavailable),
        (GCS, ServiceUnavailable("failed"), OutcomeUnknown),
        (GCS, RefreshError("no token"), StoreUnreachable),
        (GCS, NO_CONNECTION, StoreUnreachable),
        (GCS, BROKEN, OutcomeUnknown),
        (MONGODB, OperationFailure("failed"), StoreUnavailable),
        (MONGODB, WriteConcernError("not replicated"), OutcomeUnknown),
        (MONGODB, ServerSelectionTimeoutError("no primary"), StoreUnreachable),
        (MONGODB, AutoReconnect("reset"), OutcomeUnknown),
        (CASSANDRA, cassandra.InvalidRequest("failed"), StoreUnavailable),
        (CASSANDRA, cassandra.Unavailable("too few replicas"), OutcomeUnknown),
        (CASSANDRA, cassandra.WriteTimeout("timed out", write_type=0), OutcomeUnknown),
        (CASSANDRA, cassandra.OperationTimedOut({"host": "timed out"}), OutcomeUnknown),
        (CASSANDRA, cassandra.OperationTimedOut("timed out"), OutcomeUnknown),
        (CASSANDRA, NoHostAvailable("no node", {}), StoreUnreachable),
        (HBASE, SERVICE.TIOError(message=f"{hbase._READ_ONLY}: t"), StoreUnavailable),
        (HBASE, SERVICE.TIOError(message="failed"), OutcomeUnknown),
        (HBASE, ConnectionResetError("reset"), OutcomeUnknown),
    ],
)
def test_a_failed_write_is_unchanged_only_if_the_error_proves_it(
    failures: Failures, error: Exception, outcome: type[OutcomeUnknown]
) -> None:
    assert type(failures.of_write(error)) is outcome
