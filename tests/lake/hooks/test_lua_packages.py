"""Functions of Lua's packages; the expected values are those of lakeFS."""

import re
from typing import Any

import pytest

from lakebed.lake.hooks.lua_child.library.aes import AES
from lakebed.lake.hooks.lua_child.library.clock import TIME
from lakebed.lake.hooks.lua_child.library.encoding import Z85
from lakebed.lake.hooks.lua_child.library.texts import REGEXP
from lakebed.lake.hooks.lua_child.library.urls import URL
from lakebed.lake.hooks.lua_child.values import CallFailed

AT = 1772625906123456789  # 2026-03-04 12:05:06 UTC
MIDNIGHT = 1772582400
ASCII = bytes(range(1, 128))


def call(package: Any, name: str, *arguments: object) -> Any:
    return package[name](*(each.encode() if isinstance(each, str) else each for each in arguments))


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("[[:alpha:]]+", "1a", True),
        ("^a{,2}$", "aa", False),
        (r"\pL", "é", True),
        (r"a\z", "a", True),
        ("a$", "a\n", False),
        ("(?i)É", "é", True),
        ("^.$", "é", True),
        (r"\w", "é", False),
        (r"\d", "٣", False),
        ("(?<x>a)", "a", True),
        (r"\Qa.b\E", "a.b", True),
        (".", "\n", False),
        ("(a+)+$", "a" * 60 + "b", False),
    ],
)
def test_regular_expressions_are_those_of_go(pattern: str, text: str, expected: bool) -> None:
    assert call(REGEXP, "match", pattern, text) is expected


@pytest.mark.parametrize("pattern", [r"a\Z", "(?=a)", r"(a)\1", "a++", "(", "a{1001}", b"\xff"])
def test_invalid_regular_expressions(pattern: Any) -> None:
    with pytest.raises(CallFailed, match=r"invalid regular expression: (?!b')"):
        call(REGEXP, "compile", pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "count", "expected"),
    [
        ("a*", "baac", -1, [["", "aa", ""], [[""], ["aa"], [""]]]),
        ("(a)|(b)", "ab", 1, [["a"], [["a", "a", ""]]]),
        ("", "añb", -1, [[""] * 4, [[""]] * 4]),
        ("é*", "éaé", -1, [["é", "é"], [["é"], ["é"]]]),
        ("x", "y", 2, [[], []]),
        ("y", "y", 0, [[], []]),
    ],
)
def test_matches_are_those_of_go(pattern: str, text: str, count: int, expected: object) -> None:
    compiled = call(REGEXP, "compile", pattern)
    found = (
        call(compiled, "find_all", text, count),
        call(compiled, "find_all_submatch", text, count),
    )
    texts, groups = found
    assert [
        [x.decode() for x in texts],
        [[x.decode() for x in each] for each in groups],
    ] == expected


def test_quote_meta() -> None:
    quoted = call(REGEXP, "quote_meta", b"a.b\\+*?()|[]{}^$-/\xff\0 #")
    assert quoted == rb"a\.b\\\+\*\?\(\)\|\[\]\{\}\^\$" + b"-/\xff\0 #"


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("https://u:p@h.example:8/a%20b?c=d#e%20f", "https h.example:8 /a_b c=d e_f"),
        ("", "    "),
        ("///p", "  ///p  "),
        ("HTTP://H", "http H   "),
        ("mailto:a@b", "mailto    "),
        ("./a:b", "  ./a:b  "),
        ("http://[::1]:80/p", "http [::1]:80 /p  "),
        ("http://[fe80::1%25en0]/", "http [fe80::1%en0] /  "),
        ("http://%c3%a9/é", "http é /é  "),
        ("http://h/??", "http h / ? "),
        ("http://u@v@h/?a=%zz", "http h / a=%zz "),
        ("http:a/b", "http    "),
        ("s3://bucket/key?x#y#z", "s3 bucket /key x y#z"),
    ],
)
def test_urls_are_split_as_in_go(url: str, parts: str) -> None:
    names = ("scheme", "host", "path", "query", "fragment")
    found = call(URL, "parse", url)
    assert set(found) == set(names)
    assert " ".join(found[name].decode().replace(" ", "_") for name in names) == parts


@pytest.mark.parametrize(
    "url",
    [
        *("1a:b", ":a", "+a:b", "%61:b", "http://h:x/", "http://h:8:9/", "http://[::1]x/"),
        *("http://[::1", "http://h[/", "http://h/%zz", "http://h/%4", "http://h/a#f%zz"),
        *("http://h h/", "http://%41/", "http://u%zz@h/", "http://u p@h/", "http://h/\t", "a\x7f"),
    ],
)
def test_invalid_urls(url: str) -> None:
    with pytest.raises(CallFailed, match=re.escape(f"invalid URL {url!r}: ")):
        call(URL, "parse", url)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("https", "h", "/p", "q=1", "a b"), "https://h/p?q=1#a%20b"),
        (("https", "h", "p a", "q=1 2#"), "https://h/p%20a?q=1 2#"),
        (("", "h", "p"), "//h/p"),
        (("", "", "a:b/c"), "./a:b/c"),
        (("s3", "", "p"), "s3://p"),
        (("s3", ""), "s3:"),
        (("", "", "*"), "*"),
        (("", "", "//p"), "//p"),
        (("https", "é", b"/%20\xff"), "https://%C3%A9/%2520%FF"),
    ],
)
def test_urls_are_built_as_in_go(arguments: tuple[Any, ...], expected: str) -> None:
    assert call(URL, "build_url", *arguments) == expected.encode()


@pytest.mark.parametrize(
    ("part", "plain"),
    [(2, "!\"$&'()*+,-.:;<=>[]_~"), (3, "$&+,-./:;=@_~"), (5, "!$&()*+,-./:;=?@_~")],
)
def test_escapes_of_each_part_of_a_url(part: int, plain: str) -> None:
    arguments: list[Any] = [b"", b"h", b"", b"", b""]
    arguments[part - 1] = ASCII
    built = call(URL, "build_url", *arguments)
    escapes = set(re.findall(rb"%[0-9A-F]{2}", built))
    expected = [c for c in ASCII if not chr(c).isalnum() and chr(c) not in plain]
    assert escapes == {b"%%%02X" % c for c in expected}


def test_escapes_of_queries_and_segments() -> None:
    assert call(URL, "path_escape", "a b/ü?$&+=:@;,~") == "a%20b%2F%C3%BC%3F$&+=:@%3B%2C~"
    assert call(URL, "query_unescape", "a+b%20%C3%A9") == "a b é".encode()
    with pytest.raises(CallFailed, match="invalid escape '%4'"):
        call(URL, "query_unescape", "a%4")


@pytest.mark.parametrize("length", [16, 24, 32])
def test_aes(length: int) -> None:
    key = b"k" * length
    for plain in (b"", b"x" * 15, b"x" * 16, b"\x00\xff"):
        encrypted = call(AES, "encryptCBC", key, plain)
        assert len(encrypted) == 16 + len(plain) // 16 * 16 + 16
        assert call(AES, "decryptCBC", key, encrypted) == plain
    known = bytes(16) + bytes.fromhex("0143db63ee66b0cdff9f69917680151e")  # padding alone
    if length == 16:
        assert call(AES, "decryptCBC", bytes(16), known) == b""


@pytest.mark.parametrize(
    ("key", "data", "reason"),
    [
        (b"short", bytes(32), "an AES key has 16, 24 or 32 bytes"),
        (b"k" * 16, b"short", "its data begin with 16"),
        (b"k" * 16, bytes(20), "not of encryptCBC with this key"),
        (b"k" * 16, bytes(32), "not of encryptCBC with this key"),
    ],
)
def test_wrong_data_and_keys_of_aes(key: bytes, data: bytes, reason: str) -> None:
    with pytest.raises(CallFailed, match=reason):
        call(AES, "decryptCBC", key, data)


def test_uuids_in_z85() -> None:
    decoded = "d92a912f-7dff-ce89-b8d8-9762eb1650f3"
    assert call(Z85, "decode_uuid", "ab/^-aqEGdPHXy^cS(Lrs*") == (decoded, b"ab")
    assert call(Z85, "decode_uuid", "%nSc0" * 4)[0] == "ffffffff-ffff-ffff-ffff-ffffffffffff"
    for wrong in ("", "HelloWorld", "#" * 20, ";" + "0" * 19, "é" + "0" * 19):
        with pytest.raises(CallFailed, match="is not a UUID in 20 characters of Z85"):
            call(Z85, "decode_uuid", wrong)


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        *(("2006-002", "2026-063"), ("__2", " 63"), ("_2", " 4"), ("_2006", "_2026")),
        *(("05.000", "06.000"), ("05,00", "06,00"), ("05.999Z07:00", "06-05:00")),
        *(("05.0001", "06.0003"), (".009", ".009"), ("Jan Janet", "Mar Janet")),
        *(("Mon Mond Monday", "Wed Mond Wednesday"), ("Z07 -07:00:00", "-05 -05:00:00")),
        ("-070000 MST", "-050000 EST"),
    ],
)
def test_layouts_are_those_of_go(layout: str, expected: str) -> None:
    assert call(TIME, "format", AT, layout, "America/New_York") == expected


def test_utc_and_odd_offsets() -> None:
    assert call(TIME, "format", AT, "Z070000 Z07:00:00 Z07 -07") == "Z Z Z +00"
    assert call(TIME, "format", -5 * 10**18, "-07:00:00", "Africa/Monrovia") == "-00:43:08"


@pytest.mark.parametrize(
    ("layout", "value", "seconds"),
    [
        ("2006-002", "2026-063", 0),
        ("2006-002", "2024-366", 1735603200 - MIDNIGHT),
        ("2006 __2", "2026   3", 1767398400 - MIDNIGHT),
        ("2006-01-02 002", "2026-03-04 063", 0),
        ("2006-01-02 15:04:05", "2026-03-04 01:02:03.5", 3723.5),
        ("2006-01-02 15:04:05", "2026-03-04 01:02:03,1250000001", 3723.125),
        ("2006-01-02 15:04:05.000", "2026-03-04 01:02:03.125", 3723.125),
        ("2006-01-02 15:04:05.999", "2026-03-04 01:02:03", 3723),
        ("2006-01-02 15:04:05.999Z07:00", "2026-03-04 01:02:03.5+01:00", 123.5),
        ("2006-01-02 15", "2026-03-04 1", 3600),
        ("2006-01-02 3PM", "2026-03-04 12AM", 0),
        ("2006 Jan _2", "2026 mar   4", 0),
        ("January 2 2006 MST", "MARCH 4 2026 GMT+3", 0),
        ("2006-01-02 -070000", "2026-03-04 +010203", -3723),
        ("2006-01-02 Z07", "2026-03-04 +01", -3600),
        ("2006-01-02 Z07:00:00", "2026-03-04 Z", 0),
    ],
)
def test_times_are_parsed_as_in_go(layout: str, value: str, seconds: float) -> None:
    assert call(TIME, "parse", layout, value) == MIDNIGHT * 10**9 + int(seconds * 10**9)


@pytest.mark.parametrize(
    ("layout", "value"),
    [
        *(("2006-002", "2026-366"), ("2006-002", "2026-000"), ("2006-002", "2026-63")),
        *(("2006-01-02 002", "2026-03-04 064"), ("2006-01-02", "2026-02-30"), ("2006", "٢٠٢٦")),
        ("2006-01-02 15:04:05.000", "2026-03-04 01:02:03.12"),
        ("2006-01-02 15:04:05.000", "2026-03-04 01:02:03"),
        ("2006-01-02 3PM", "2026-03-04 13AM"),
        ("2006-01-02 -07", "2026-03-04 Z"),
        ("2006-01-02 -0700", "2026-03-04 +2500"),
    ],
)
def test_times_that_do_not_match(layout: str, value: str) -> None:
    with pytest.raises(CallFailed, match=r"does not match the layout|is not a time"):
        call(TIME, "parse", layout, value)
