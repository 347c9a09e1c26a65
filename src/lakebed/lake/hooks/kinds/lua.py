"""Lua hooks: a script runs in a process of its own and calls the server over a pipe.

A Lua interpreter cannot be limited from inside: pattern matching can run forever without reaching
a hook, and a crash of the interpreter would crash the server. So each script runs in a process with
an empty environment and resource limits (see `lakebed.lake.hooks.lua_child`), killed at the
deadline, without network and files. Its requests over the pipe are executed here: calls of the
server as the user who triggered the event, and HTTP requests if the operator allows them. All
messages from the process are validated as if written by the script.
"""

import sys

import msgspec

from lakebed.lake.hooks.errors import HookFailed
from lakebed.lake.hooks.events import rfc3339
from lakebed.lake.hooks.kinds.context import HookContext, to_json
from lakebed.lake.hooks.lua_child.messages import (
    CALLS,
    Call,
    CallReply,
    End,
    Frames,
    FromChild,
    HTTPCall,
    Print,
    Start,
    frame,
)
from lakebed.lake.hooks.network import Network, Response
from lakebed.lake.hooks.processes import Child
from lakebed.lake.hooks.properties import SCRIPT_BYTES_MAX

_OK = 200
_BODIES_AS_TEXT = frozenset({"get_object", "stat_object"})


def run(context: HookContext) -> None:
    """Run the script; raise `HookFailed` if it cannot be read, failed, or exceeded a limit."""
    start = _start(context, _read_script(context))
    child = Child(
        [sys.executable, "-I", "-B", "-m", "lakebed.lake.hooks.lua_child"],
        environment={},
        deadline=context.deadline,
        with_errors=False,
    )
    with child:
        child.send(frame(start))
        error = _serve(context, child)
    if error is not None:
        raise HookFailed(error)


def _serve(context: HookContext, child: Child) -> str | None:
    """Serve the script's requests until it ends; return its error, or None on success."""
    frames = Frames()
    decoder = msgspec.msgpack.Decoder(FromChild)
    while True:
        received = child.receive()
        if not received:
            raise HookFailed(_describe_exit(child.wait()))
        try:
            messages = [decoder.decode(each) for each in frames.add(received)]
        except (msgspec.MsgspecError, ValueError) as error:
            raise HookFailed("the script's process sent an invalid message") from error
        for message in messages:
            if child.is_sending:
                # Unread replies would pile up in memory.
                raise HookFailed("the script's process does not read its replies")
            match message:
                case Print(text):
                    context.output.write(text)
                case End(reason):
                    return reason
                case Call():
                    child.send(frame(_call(context, message)))
                case HTTPCall():
                    child.send(frame(_request(context, message)))


def _start(context: HookContext, script: bytes) -> Start:
    event, commit = context.event, context.event.commit
    action: dict[str, object] = {
        "action_name": context.spec.action_name,
        "hook_id": context.spec.id,
        "run_id": event.run_id,
        "pre_run_id": event.pre_run_id,
        "event_type": event.event_type.value,
        "commit_id": event.commit_id,
        "branch_id": event.branch_id,
        "source_ref": event.source_ref,
        "tag_id": event.tag_id,
        "merge_source": event.merge_source,
        "repository_id": event.repository_id,
        "storage_namespace": event.storage_namespace,
        "commit": {
            "message": commit.message or event.commit_message,
            "meta_range_id": commit.meta_range_id,
            "creation_date": rfc3339(commit.creation_date or event.event_time),
            "version": commit.version,
            "metadata": dict(commit.metadata or event.commit_metadata),
            "parents": list(commit.parents),
        },
    }
    return Start(
        script=script,
        action=action,
        args=context.environment.fill(context.spec.properties.get("args", {})),
        username=event.username,
        seconds=context.deadline.left(),
        memory_mib=context.settings.lua.memory_mib,
        net_http_enabled=context.settings.lua.net_http_enabled,
    )


def _read_script(context: HookContext) -> bytes:
    properties, event = context.spec.properties, context.event
    if "script" in properties:
        script: str = properties["script"]
        return script.encode(errors="surrogatepass")
    path: str = properties["script_path"]
    ref = event.script_ref or event.source_ref
    where = {"repository": event.repository_id, "reference": ref, "path": path}
    status, body = context.caller.call("get_object", where)
    if status != _OK:
        raise HookFailed(f"script_path: {path} cannot be read at {ref}: {status}")
    if len(body) > SCRIPT_BYTES_MAX:
        raise HookFailed(f"script_path: {path} has more than {SCRIPT_BYTES_MAX} bytes")
    return bytes(body)


def _call(context: HookContext, call: Call) -> CallReply:
    if call.name not in CALLS:
        return CallReply(error=f"unknown call {call.name}")
    status, body = context.caller.call(call.name, call.arguments)
    if call.name in _BODIES_AS_TEXT and not isinstance(body, bytes):
        body = to_json(body) if body is not None else b""
    return CallReply(status=status, body=body)


def _request(context: HookContext, request: HTTPCall) -> CallReply:
    if not context.settings.lua.net_http_enabled:
        return CallReply(error="net/http is disabled: see hooks.lua.net_http_enabled")
    try:
        response = Network(context.settings).request(
            request.method,
            request.url,
            headers=request.headers,
            body=request.body,
            deadline=context.deadline,
        )
    except HookFailed as error:
        context.deadline.check()
        return CallReply(error=str(error))
    return CallReply(status=response.status, body=response.body, headers=_joined(response))


def _joined(response: Response) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in response.headers:
        joined[name.title()] = (
            f"{joined[name.title()]}, {value}" if name.title() in joined else value
        )
    return joined


def _describe_exit(code: int) -> str:
    if code < 0:
        return f"the script's process was ended by signal {-code}: it took too much CPU or memory"
    return f"the script's process ended with code {code} before the script did"
