import base64
import json
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.runtime import ThreadRuntime
from lakebed.lake.hooks.outputs import MASK, HookOutput


def new_output(*secrets: str, bytes_max: int = 1000) -> HookOutput:
    output = HookOutput(ThreadRuntime(), bytes_max=bytes_max)
    for secret in secrets:
        output.hide(secret)
    return output


def test_output_can_be_read_at_once() -> None:
    output = new_output()
    output.print("one")
    assert output.content() == b"one\n"
    output.write(b"\xff")
    assert output.content() == b"one\n\xff"


def test_it_is_cut_with_a_note() -> None:
    output = new_output(bytes_max=10)
    for _ in range(5):
        output.write("abcd")
    assert output.content() == b"abcdabcdab\n[truncated: the output has more than 10 bytes]\n"
    output.flush()
    assert len(output.content()) < 100


def test_a_full_output_is_not_cut() -> None:
    output = new_output(bytes_max=4)
    output.write("abcd")
    assert output.content() == b"abcd"


def test_a_secret_is_masked_in_each_form_that_a_server_may_echo() -> None:
    secret = 'p"ss wörd/ö'
    output = new_output(secret)
    for form in (
        secret,
        json.dumps(secret),
        json.dumps(secret, ensure_ascii=False),
        quote(secret, safe=""),
        quote(secret),
        base64.b64encode(secret.encode()).decode(),
    ):
        output.print(form)
    output.flush()
    shown = output.content().decode()
    assert shown.count(MASK) == 6
    assert "ss" not in shown
    assert "rd" not in shown
    assert output.masked(f"it was {secret}!") == f"it was {MASK}!"


def test_short_texts_are_no_secrets() -> None:
    output = new_output("", "1", "yes")
    output.write("1 yes")
    assert output.content() == b"1 yes"


@given(
    st.lists(st.sampled_from(["abab", "ababcd", "bcda"]), min_size=1, max_size=3),
    st.lists(st.sampled_from(["a", "b", "ab", "aba", "bab", "cd", "bcd", "x"]), max_size=12),
)
def test_no_way_to_cut_a_secret_into_pieces_shows_it(secrets: list[str], pieces: list[str]) -> None:
    output, at_once = new_output(*secrets), new_output(*secrets)
    for piece in pieces:
        output.write(piece)
        shown = output.content().decode()
        assert not any(secret in shown for secret in secrets)
    output.flush()
    at_once.write("".join(pieces))
    at_once.flush()
    assert output.content() == at_once.content()
    assert not any(secret in output.content().decode() for secret in secrets)


def test_a_secret_that_arrives_in_pieces_is_held_back() -> None:
    output = new_output("secret")
    for piece in ("my sec", "ret, your sec", "ond"):
        output.write(piece)
    assert output.content().decode() == f"my {MASK}, your second"
    output.write(" se")
    assert output.content().decode() == f"my {MASK}, your second "
    output.flush()
    assert output.content().decode() == f"my {MASK}, your second se"


def test_many_threads_lose_nothing() -> None:
    output = new_output("secret", bytes_max=1 << 20)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: output.print(f"<{number:04}>"), range(1000)))
    output.flush()
    assert sorted(output.content().split()) == [f"<{number:04}>".encode() for number in range(1000)]


def test_a_secret_that_is_written_often_is_looked_for_near_the_end_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = []
    look = HookOutput._beginning

    def counted(self: HookOutput, text: bytes, start: int) -> int:
        looks.append(start)
        return look(self, text, start)

    monkeypatch.setattr(HookOutput, "_beginning", counted)
    output = new_output("aaaa", "k" * 20, bytes_max=1_000_000)
    output.write(b"aaaa" * 10_000)
    assert len(looks) < 20
    output.flush()
    assert output.content() == MASK.encode() * 10_000
