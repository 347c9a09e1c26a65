"""Airflow hooks: start a DAG run, and wait for its end if the action file asks for that.

Airflow 2 has API v1, with user and password in each request. Airflow 3 has API v2, with a token
from the action file, or obtained with user and password.

The id of the DAG run is derived from the hook's id and the run's id, so that an event delivered
again starts no second run: Airflow replies 409, and the hook continues with the existing run.
"""

import base64
import json
from typing import Final
from urllib.parse import quote

from lakebed.lake.hooks.errors import HookFailed
from lakebed.lake.hooks.kinds.context import HookContext, to_json
from lakebed.lake.hooks.kinds.webhook import is_success, send
from lakebed.lake.hooks.network import Response

_REQUEST_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 5.0
_ALREADY_THERE: Final = 409


def run(context: HookContext) -> None:
    """Start a DAG run, and wait for its end if ``wait_for_dag`` is set.

    Raises `HookFailed` if the DAG run could not be started, failed, or took too long.
    """
    properties = context.spec.properties
    version = properties.get("api_version", "v1")
    headers = {"Authorization": _authorization(context, version)}
    dag_run_id = f"lakeFS_hook_{context.spec.id}_{context.event.run_id}"
    dag = quote(properties["dag_id"], safe="")
    runs = f"{_base(context)}/api/{version}/dags/{dag}/dagRuns"
    body: dict[str, object] = {
        "dag_run_id": dag_run_id,
        "conf": {**properties.get("dag_conf", {}), "lakeFS_event": context.payload},
    }
    if version == "v2":
        body["logical_date"] = None  # required by v2; null means a run without a date
    response = _send(context, "POST", runs, headers, to_json(body))
    if not is_success(response.status) and response.status != _ALREADY_THERE:
        raise HookFailed(f"Airflow did not start the DAG: status {response.status}")
    if properties.get("wait_for_dag", False):
        _wait(context, f"{runs}/{quote(dag_run_id, safe='')}", headers)


def _wait(context: HookContext, url: str, headers: dict[str, str]) -> None:
    while True:
        context.deadline.sleep(_POLL_SECONDS)
        response = _send(context, "GET", url, headers)
        if not is_success(response.status):
            raise HookFailed(f"Airflow did not return the DAG run: status {response.status}")
        state = _field(response, "state")
        if state == "success":
            return
        if state == "failed":
            raise HookFailed(f"the DAG run failed: see the logs of Airflow for {url}")


def _authorization(context: HookContext, version: str) -> str:
    properties = context.spec.properties
    secret = context.environment.fill_text(properties.get("token") or properties["password"])
    context.output.hide(secret)  # even if written literally in the action file
    if "token" in properties:
        return f"Bearer {secret}"
    username = properties["username"]
    if version == "v1":
        pair = base64.b64encode(f"{username}:{secret}".encode()).decode()
        context.output.hide(pair)
        return f"Basic {pair}"
    body = to_json({"username": username, "password": secret})
    response = _send(context, "POST", f"{_base(context)}/auth/token", {}, body, is_secret=True)
    if not is_success(response.status):
        raise HookFailed(f"Airflow returned no token: status {response.status}")
    token = _field(response, "access_token")
    context.output.hide(token)
    return f"Bearer {token}"


def _send(
    context: HookContext,
    method: str,
    url: str,
    headers: dict[str, str],
    body: bytes = b"",
    *,
    is_secret: bool = False,
) -> Response:
    deadline = context.deadline.within(_REQUEST_SECONDS)
    return send(
        context, method, url, headers=headers, body=body, deadline=deadline, is_secret=is_secret
    )


def _base(context: HookContext) -> str:
    url: str = context.spec.properties["url"]
    return url.partition("#")[0].partition("?")[0].rstrip("/")


def _field(response: Response, name: str) -> str:
    try:
        value = json.loads(response.body)[name]
    except (ValueError, LookupError, TypeError, RecursionError):
        value = None
    if not isinstance(value, str):
        raise HookFailed(f"Airflow's response has no {name}: check that url is Airflow's")
    return value
