"""Lua scripts, each in a real process."""

import io
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import lupa.lua52
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.lake.hooks.lua_child.messages import Call, Start, frame
from lakebed.lake.hooks.settings import HookLimits, LuaSettings
from tests.lake.hooks.kit import ON_LOOPBACK, Ran, ScriptedCaller, bad_server, run

pytestmark = pytest.mark.slow


def lua(
    script: str,
    *,
    args: dict[str, Any] | None = None,
    timeout: str = "1m",
    settings: HookLimits = ON_LOOPBACK,
    caller: ScriptedCaller | None = None,
    **more: Any,
) -> Ran:
    properties = {"script": script, "args": args or {}, "timeout": timeout}
    return run("lua", properties, settings=settings, caller=caller, **more)


def test_the_variables_of_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEFSACTION_KEY", "hush-hush")
    ran = lua(
        """
        assert(_VERSION == "Lua 5.2")
        assert(username == "jane")
        assert(action.action_name == "checks" and action.hook_id == "my_hook")
        assert(action.event_type == "pre-commit" and action.run_id == "run-1")
        assert(action.repository_id == "repo" and action.storage_namespace == "s3://bucket/prefix")
        assert(action.branch_id == "main" and action.source_ref == "main" and action.tag_id == "")
        assert(action.commit.message == "clean data" and action.commit.metadata.key == "value")
        assert(action.commit.parents[1] == "p1" and #action.commit.parents == 1)
        assert(args.list[2].deep == true and args.list[1] == 1.5)
        assert(args.key == "hush-" .. "hush")
        print("key", args.key, nil, 3, 1.5)
        """,
        args={"list": [1.5, {"deep": True}], "key": "{{ ENV.LAKEFSACTION_KEY }}"},
    )
    assert ran == Ran(None, "key\t*******\tnil\t3\t1.5\n")


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ('error("no good")', '[string "lua"]:1: no good'),
        ('require("hook").fail("bad names: 3")', "bad names: 3"),
        ("local x = nil; x.y = 1", "attempt to index local 'x'"),
        ("this is not Lua", "syntax error near"),
        ("error({})", "table: "),
        ("error(setmetatable({}, {__tostring = error}))", "C stack overflow"),
        ("\x1bLua", "attempt to load a binary chunk"),
        ('require("aws")', "package aws is not available"),
        ('require("lakefs/catalogexport/hive")', "is not available"),
        ('require("socket")', "unknown package socket: use one of crypto/aes"),
        ('require("net/http")', "enable it by hooks.lua.net_http_enabled"),
        ('require("lakefs").get_object("repo")', '[string "lua"]:1: bad argument #2: a string'),
        ('require("encoding/json").unmarshal("{")', "invalid JSON"),
        ("assert(false, 'as I said')", "as I said"),
    ],
)
def test_a_script_that_fails_fails_the_hook(script: str, error: str) -> None:
    assert error in str(lua(script).error)


def test_an_error_can_be_caught_and_is_a_text() -> None:
    ran = lua(
        """
        local ok, problem = pcall(require, "aws")
        assert(not ok and type(problem) == "string" and problem:find("not available"))
        local ok, problem = pcall(require("hook").fail, "x")
        assert(not ok and problem:find("x"))
        local ok, trace = xpcall(function() error("inside") end, debug.traceback)
        assert(not ok and trace:find("stack traceback"))
        """
    )
    assert ran.error is None


def test_the_server_is_asked_as_the_user() -> None:
    page = {"results": [{"path": "a/b", "size_bytes": 3}], "pagination": {"has_more": False}}
    caller = ScriptedCaller(
        {
            "list_objects": (200, page),
            "get_object": (200, b"\x00\xff" * 5),
            "stat_object": (200, {"path": "a/b"}),
            "create_tag": (201, {"id": "t1"}),
            "update_object_user_metadata": (201, None),
        }
    )
    ran = lua(
        """
        local lakefs = require("lakefs")
        local code, body = lakefs.list_objects("repo", "main", "", "a/", "/", 10, true)
        assert(code == 200 and body.results[1].path == "a/b" and #body.results == 1)
        assert(body.pagination.has_more == false)
        local code, body = lakefs.get_object("repo", "main", "a/b")
        assert(code == 200 and body == ("\\0\\255"):rep(5))
        local code, body = lakefs.stat_object("repo", "main", "a/b")
        assert(code == 200 and require("encoding/json").unmarshal(body).path == "a/b")
        local code, body = lakefs.create_tag("repo", "main", "t1")
        assert(code == 201 and body.id == "t1")
        local code, body = lakefs.diff_refs("repo", "a", "b")
        assert(code == 404 and body.message == "not found")
        local code, body = lakefs.diff_branch("repo", "main", nil, 5)
        assert(code == 404)
        local code, body = lakefs.update_object_user_metadata("repo", "main", "p", {a = "b", c = 1})
        assert(code == 201 and body == nil)
        """,
        caller=caller,
    )
    assert ran.error is None
    where = {"repository": "repo", "reference": "main"}
    listed = {"after": "", "prefix": "a/", "delimiter": "/", "amount": 10, "user_metadata": True}
    assert caller.calls == [
        ("list_objects", {**where, **listed}),
        ("get_object", {**where, "path": "a/b"}),
        ("stat_object", {**where, "path": "a/b"}),
        ("create_tag", {**where, "tag": "t1"}),
        ("diff_refs", {"repository": "repo", "left": "a", "right": "b"}),
        ("diff_branch", {"repository": "repo", "branch": "main", "amount": 5}),
        (
            "update_object_user_metadata",
            {"repository": "repo", "branch": "main", "path": "p", "metadata": {"a": "b", "c": "1"}},
        ),
    ]


def test_a_script_can_be_an_object() -> None:
    caller = ScriptedCaller({"get_object": (200, b'print("from the lake")')})
    ran = run("lua", {"script_path": "scripts/check.lua"}, caller=caller)
    assert ran == Ran(None, "from the lake\n")
    wanted = {"repository": "repo", "reference": "main", "path": "scripts/check.lua"}
    assert caller.calls == [("get_object", wanted)]
    missing = run("lua", {"script_path": "scripts/other.lua"})
    assert missing.error == "script_path: scripts/other.lua cannot be read at main: 404"


def test_the_packages() -> None:
    buffer = io.BytesIO()
    rows = pa.table({"id": [1], "inner": [{"a": "x", "b": 1.5}], "many": [[1]]})
    pq.write_table(rows, buffer)
    caller = ScriptedCaller({"get_object": (200, buffer.getvalue())})
    ran = lua(
        r"""
        local json, yaml = require("encoding/json"), require("encoding/yaml")
        local text = '{"a":[1,2.5,"x"],"b":{"c":true},"e":[],"ü":"ö"}'
        assert(json.marshal(json.unmarshal(text)) == text .. "\n")
        assert(json.marshal({}) == "{}\n" and json.marshal(array()) == "[]\n")
        assert(json.marshal({1, 2}, {indent = "  "}) == "[\n  1,\n  2\n]\n")
        assert(yaml.unmarshal("on: [yes, 1, true]").on[1] == "yes")
        assert(yaml.marshal({b = 1, a = {"x"}}) == "a:\n- x\nb: 1\n")
        local base64, hex = require("encoding/base64"), require("encoding/hex")
        assert(base64.encode("\0\255a") == "AP9h" and base64.decode("AP9h") == "\0\255a")
        assert(base64.url_encode("\251\255\254\1") == "-__-AQ")
        assert(base64.urlDecode("-__-AQ") == "\251\255\254\1")
        assert(not pcall(base64.decode, "a?"))
        assert(hex.encode("\1\255") == "01ff" and hex.decode("01FF") == "\1\255")
        local sha256, hmac = require("crypto/sha256"), require("crypto/hmac")
        assert(hex.encode(sha256.digest("abc")):sub(1, 16) == "ba7816bf8f01cfea")
        local signed = hmac.sign_sha256("what do ya want for nothing?", "Jefe")
        assert(hex.encode(signed):sub(1, 8) == "5bdcc146")
        assert(#hmac.sign_sha1("m", "k") == 20 and #hmac.signsha256("m", "k") == 32)
        local strings, path = require("strings"), require("path")
        assert(#strings.split("a,b,,c", ",") == 4 and strings.split("ab", "")[2] == "b")
        assert(strings.trim("  x\n") == "x" and strings.replace("aaa", "a", "b", 2) == "bba")
        assert(strings.has_prefix("abc", "ab") and strings.has_suffix("abc", "bc"))
        assert(strings.contains("abc", "b") and not strings.contains("abc", "x"))
        local parsed = path.parse("a/b/c.csv")
        assert(parsed.parent == "a/b/" and parsed.base_name == "c.csv")
        assert(path.parse("a/b/").base_name == "b" and path.parse("x").parent == "")
        assert(path.join("/", "a", "b/", "/c") == "a/b/c")
        assert(path.join("/", "/a/", "b/") == "/a/b/")
        assert(path.is_hidden("a/_b/c") and not path.is_hidden("a/b") and path.is_hidden("_a"))
        assert(path.default_separator() == "/" and path.extract_dir_name("a/b/c") == "a/b")
        local regexp = require("regexp")
        assert(regexp.match("^a+$", "aaa") and not regexp.match("b", "aaa"))
        assert(regexp.quote_meta("a.b*c") == "a\\.b\\*c")
        local compiled = regexp.compile("(\\w)=(\\d+)")
        assert(compiled.find("x a=12 b=3") == "a=12" and compiled.find("none") == "")
        assert(#compiled.find_all("a=1 b=2 c=3", 2) == 2 and #compiled.find_all("a=1 b=2", -1) == 2)
        assert(compiled.find_submatch("x a=12")[3] == "12" and #compiled.find_submatch("x") == 0)
        assert(compiled.find_all_submatch("a=1 b=2", -1)[2][2] == "b")
        local time, uuid = require("time"), require("uuid")
        assert(time.since(time.now()) < 1e12 and #uuid.new() == 36 and uuid.new() ~= uuid.new())
        local noon = time.parse_iso("2026-03-04T12:05:06+00:00")
        assert(noon == 1772625906e9)
        assert(time.format(noon, "Mon Jan _2 15:04:05 2006", "UTC") == "Wed Mar  4 12:05:06 2026")
        assert(time.format(noon, "02/01/06 3:04PM Z07:00", "UTC") == "04/03/26 12:05PM Z")
        assert(time.formatISO(noon, "Asia/Tokyo") == "2026-03-04T21:05:06+09:00")
        assert(time.parse("2006-01-02", "2026-03-04") == noon - 43506e9)
        assert(time.add(noon, {hour = 1, second = -6}) == noon + 3594e9)
        assert(not pcall(time.parse, "2006-01-02", "2026-13-04"))
        time.sleep(1)
        local url = require("net/url").parse("https://u:p@h.example:8/a%20b?c=d#e")
        assert(url.host == "h.example:8" and url.path == "/a b")
        assert(url.scheme == "https" and url.query == "c=d" and url.fragment == "e")
        local aes, key = require("crypto/aes"), ("k"):rep(32)
        assert(aes.decryptCBC(key, aes.encryptCBC(key, "\0x")) == "\0x")
        local uuid, prefix = require("encoding/z85enc").decode_uuid("ab/^-aqEGdPHXy^cS(Lrs*")
        assert(uuid == "d92a912f-7dff-ce89-b8d8-9762eb1650f3" and prefix == "ab")
        local _, content = require("lakefs").get_object("r", "m", "p")
        local schema = require("encoding/parquet").get_schema(content)
        local seen = {}
        for _, column in ipairs(schema) do seen[#seen + 1] = column.name .. ":" .. column.type end
        print(table.concat(seen, " "))
        """,
        caller=caller,
    )
    assert ran.error is None
    assert ran.output == (
        "id:INT64 inner:N/A a:BYTE_ARRAY b:DOUBLE many:N/A list:N/A element:INT64\n"
    )


@pytest.mark.parametrize(
    "script",
    [
        'string.find(("a"):rep(30000), ("a-"):rep(40) .. "b")',
        "while true do end",
        "local function go() pcall(go) end while true do pcall(go) end",
        'require("time").sleep(3600e9)',
        "while true do print(('x'):rep(100000)) end",
        'while true do pcall(require("lakefs").stat_object, "r", "m", "p") end',
    ],
)
def test_a_script_without_end_is_ended(script: str) -> None:
    ran = lua(script, timeout="1s")
    assert "the hook timed out" in str(ran.error)
    assert len(ran.output) < (1 << 20) + 200


@pytest.mark.parametrize(
    "script",
    [
        'local s = "x" while true do s = s .. s end',
        "local t = {} for i = 1, 1e12 do t[i] = {i} end",
        '("x"):rep(1e10)',
        """local json = require("encoding/json")
        local s, t = json.marshal({("x"):rep(2e7)}), {}
        while true do t[#t + 1] = json.unmarshal(s) end""",
    ],
)
def test_a_script_cannot_take_all_memory(script: str) -> None:
    small = HookLimits(lua=LuaSettings(memory_mib=64))
    ran = lua(script, settings=small)
    assert "memory" in str(ran.error)


def test_the_sandbox_has_no_escape() -> None:
    outside = lupa.lua52.LuaRuntime(encoding=None)
    bytecode = outside.eval("string.dump(function() return 1 end)")
    assert outside.eval("function(code) return load(code)() end")(bytecode) == 1
    ran = lua(
        r"""
        assert(not (os or io or package or python or dofile or loadfile or coroutine))
        assert(debug.getregistry == nil and debug.sethook == nil and debug.getupvalue == nil)
        assert(string.dump == nil and ("").dump == nil and getmetatable("").__index.dump == nil)
        -- Bytecode is refused, by whatever way it comes.
        local bytecode = require("encoding/hex").decode(args.bytecode)
        assert(load(bytecode) == nil)
        assert(load(bytecode, "x", "b") == nil)
        local pieces = {bytecode}
        assert(load(function() return table.remove(pieces) end, "x", "bt") == nil)
        -- What is loaded sees no more than the script does.
        assert(load("return os, io, _G")() == nil)
        assert(load("return x", "n", "t", {x = 7})() == 7)
        -- No object of Python's can be reached.
        local seen = {}
        local function visit(value)
          assert(type(value) ~= "userdata" and type(value) ~= "thread")
          if type(value) ~= "table" or seen[value] then return end
          seen[value] = true
          for key, each in pairs(value) do visit(key) visit(each) end
          visit(getmetatable(value))
        end
        visit(_G)
        visit(getmetatable(""))
        for _, name in ipairs({"lakefs", "hook", "regexp", "time", "encoding/json"}) do
          visit(require(name))
        end
        visit(require("regexp").compile("a"))
        local _, problem = pcall(require("encoding/json").marshal, {print})
        visit(problem)
        assert(problem:find("a function cannot be used here"))
        local own = {} own.own = own
        assert(not pcall(require("encoding/json").marshal, own))
        assert(collectgarbage("count") > 0)
        """,
        args={"bytecode": bytecode.hex()},
    )
    assert ran.error is None


def test_the_process_has_no_environment_and_cannot_start_others() -> None:
    found: list[tuple[dict[str, str], Any, Any, int]] = []

    def look() -> None:
        # Other tests of this process may have left theirs.
        children = psutil.Process().children()
        (child,) = [each for each in children if "lakebed.lake.hooks.lua_child" in each.cmdline()]
        limits = (child.rlimit(psutil.RLIMIT_NPROC), child.rlimit(psutil.RLIMIT_FSIZE))
        found.append((child.environ(), *limits, child.pid))

    # As root it may fork in spite of the limit, but nothing in the sandbox can.
    lua('require("lakefs").stat_object("r", "m", "p")', caller=ScriptedCaller(during=look))
    ((environment, processes, file_size, pid),) = found
    assert environment == {}
    assert processes == file_size == (0, 0)
    assert not psutil.pid_exists(pid)


def test_a_script_that_is_cancelled_ends() -> None:
    cancelled: list[bool] = []
    caller = ScriptedCaller(during=lambda: cancelled.append(True))
    ran = lua(
        'require("lakefs").stat_object("r", "m", "p") while true do end',
        caller=caller,
        is_cancelled=lambda: bool(cancelled),
    )
    assert ran.error == "the hook was cancelled"


def test_the_process_ends_by_itself_if_the_server_is_gone() -> None:
    start = Start(
        script=b'require("time").sleep(3600e9)',
        action={},
        args={},
        username="jane",
        seconds=0.1,
        memory_mib=64,
        net_http_enabled=False,
    )
    command = [sys.executable, "-I", "-B", "-m", "lakebed.lake.hooks.lua_child"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        child.stdin.write(frame(start))
        child.stdin.flush()
        assert child.wait(60) == -signal.SIGALRM


def test_requests_go_where_webhooks_may_go() -> None:
    on = HookLimits(lua=LuaSettings(net_http_enabled=True), allow_private_networks=True)
    script = """
        local http = require("net/http")
        local code, body, headers = http.request({url = args.url, method = "PUT", body = "hello",
            headers = {["X-One"] = "1"}})
        assert(code == 200 and body == "fine" and headers["X-Two"] == "2")
        print((http.request(args.url)))
    """
    with bad_server({"/": lambda each: each.answer(200, b"fine", "x-two: 2")}) as server:
        ran = lua(script, args={"url": server.url + "/"}, settings=on)
        assert ran == Ran(None, "200\n")
        assert [each.line for each in server.received] == ["PUT / HTTP/1.1", "GET / HTTP/1.1"]
        assert server.received[0].body == b"hello"
        assert server.received[0].headers["x-one"] == "1"
        bad = """
            local http = require("net/http")
            for _, headers in ipairs({{["é"] = "a"}, {a = "b\\r\\nc: d"}, {Host = "x"}}) do
              assert(not pcall(http.request, {url = args.url, headers = headers}))
            end
            assert(not pcall(http.request, {url = args.url, method = "GET / x"}))
            assert(not pcall(http.request, {url = "file:///etc/passwd"}))
            assert(not pcall(http.request, {url = args.url .. " x"}))
        """
        assert lua(bad, args={"url": server.url + "/"}, settings=on).error is None
        public = HookLimits(lua=LuaSettings(net_http_enabled=True))
        refused = lua(script, args={"url": server.url + "/"}, settings=public)
        assert "hooks are not allowed to send requests to this host" in str(refused.error)
        assert len(server.received) == 2


@pytest.mark.parametrize("given", ['method = "GÄT"', 'headers = {["Ä"] = "1"}'])
def test_a_request_that_cannot_be_sent_is_an_error_of_the_script(given: str) -> None:
    on = HookLimits(lua=LuaSettings(net_http_enabled=True), allow_private_networks=True)
    script = f"""require("net/http").request({{url = "http://127.0.0.1:1/", {given}}})"""
    assert "must be ASCII" in str(lua(script, settings=on).error)


def test_of_an_error_without_end_the_beginning_is_told() -> None:
    ran = lua('error(("x"):rep(1000000))')
    assert len(str(ran.error)) < 5000
    assert len(ran.output) < 5000


def test_replies_that_nobody_reads_do_not_heap_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that a script got into its hands may say anything, and read nothing."""
    program = tmp_path / "child"
    calls = frame(Call("get_object", {})) * 50
    program.write_text(
        f"#!{sys.executable}\nimport os, time\nos.write(1, {calls!r})\ntime.sleep(60)"
    )
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    caller = ScriptedCaller({"get_object": (200, bytes(1 << 20))})
    ran = lua("return", caller=caller)
    assert ran.error == "the script's process does not read its replies"
    assert len(caller.calls) == 1
