from pathlib import Path

import pytest

from lakebed.clients.http.errors import ClientSettingsError
from lakebed.clients.http.settings import ClientSettings, load_settings

FILE = """
server:
  endpoint_url: http://from-file:1/api/v1
credentials:
  access_key_id: file-key
  secret_access_key: file-secret
"""
LAKECTL = {
    "LAKECTL_SERVER_ENDPOINT_URL": "http://from-lakectl:2",
    "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": "lakectl-key",
    "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "lakectl-secret",
}
LAKEBED = {
    "LAKEBED_ENDPOINT": "http://from-lakebed:3/",
    "LAKEBED_ACCESS_KEY_ID": "lakebed-key",
    "LAKEBED_SECRET_ACCESS_KEY": "lakebed-secret",
}


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    (tmp_path / ".lakectl.yaml").write_text(FILE)
    return {"HOME": str(tmp_path)}


def load(
    environ: dict[str, str], *, config_file: Path | None = None, endpoint: str | None = None
) -> ClientSettings:
    return load_settings(environ=environ, config_file=config_file, endpoint=endpoint)


def test_the_file_of_lakectl(home: dict[str, str]) -> None:
    assert load(home) == ClientSettings("http://from-file:1", "file-key", "file-secret")


def test_the_variables_of_lakectl_go_over_the_file(home: dict[str, str]) -> None:
    expected = ClientSettings("http://from-lakectl:2", "lakectl-key", "lakectl-secret")
    assert load(home | LAKECTL) == expected


def test_the_variables_of_lakebed_go_over_those(home: dict[str, str]) -> None:
    expected = ClientSettings("http://from-lakebed:3", "lakebed-key", "lakebed-secret")
    assert load(home | LAKECTL | LAKEBED) == expected


def test_the_flag_goes_over_all(home: dict[str, str]) -> None:
    settings = load(home | LAKECTL | LAKEBED, endpoint="http://from-flag:4")
    assert settings == ClientSettings("http://from-flag:4", "lakebed-key", "lakebed-secret")


def test_each_setting_is_found_for_itself(home: dict[str, str]) -> None:
    settings = load(home | {"LAKEBED_ACCESS_KEY_ID": "mine", "LAKECTL_SERVER_ENDPOINT_URL": ""})
    assert settings == ClientSettings("http://from-file:1", "mine", "file-secret")


def test_a_named_file_goes_in_place_of_the_usual_one(home: dict[str, str], tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(FILE.replace("file-key", "other-key"))
    assert load(home, config_file=other).access_key_id == "other-key"


@pytest.mark.parametrize(
    ("given", "endpoint"),
    [
        ("http://host", "http://host"),
        ("http://host/", "http://host"),
        ("https://host:443/api/v1", "https://host:443"),
        ("http://host/api/v1/", "http://host"),
        ("http://host/behind/a/proxy/api/v1", "http://host/behind/a/proxy"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_the_path_of_the_api_may_be_left_out(given: str, endpoint: str) -> None:
    assert load(LAKEBED, endpoint=given).endpoint == endpoint


@pytest.mark.parametrize(
    "given", ["host:8000", "ftp://host", "http://", "http://host:port", "http://h?q", "http://h#f"]
)
def test_a_wrong_endpoint_gets_an_example(given: str) -> None:
    with pytest.raises(
        ClientSettingsError, match=r"is not an endpoint such as http://127\.0\.0\.1:8000"
    ) as caught:
        load(LAKEBED, endpoint=given)
    assert repr(given) in str(caught.value)


def test_missing_settings_are_named_with_their_sources() -> None:
    with pytest.raises(ClientSettingsError) as caught:
        load({})
    assert str(caught.value) == (
        "the endpoint, the access key id and the secret access key are not set:"
        " set LAKEBED_ENDPOINT, LAKEBED_ACCESS_KEY_ID and LAKEBED_SECRET_ACCESS_KEY,"
        " or server.endpoint_url, credentials.access_key_id and credentials.secret_access_key"
        " in ~/.lakectl.yaml, or pass --endpoint"
    )
    with pytest.raises(ClientSettingsError) as caught:
        load(LAKEBED | {"LAKEBED_SECRET_ACCESS_KEY": ""})
    assert str(caught.value) == (
        "the secret access key is not set: set LAKEBED_SECRET_ACCESS_KEY,"
        " or credentials.secret_access_key in ~/.lakectl.yaml"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [", "is not YAML .line 1"),
        ("a: 2026-13-45", "is not YAML"),
        ("a: !!int ''", "is not YAML"),
        ("[" * 500, "is not YAML"),
        ("credentials:\n  secret_access_key: @hush", "is not YAML .line 2"),
        ("just text", "not in lakectl's format"),
        ("- a", "not in lakectl's format"),
        ("server: http://host", "not in lakectl's format"),
        ("credentials: {access_key_id: 0123}", "is not text: quote it"),
    ],
)
def test_a_wrong_file_is_explained_without_its_secrets(
    tmp_path: Path, content: str, message: str
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(content)
    with pytest.raises(ClientSettingsError, match=message) as caught:
        load({}, config_file=file)
    assert "hush" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["", "server:\ncredentials:\n"])
def test_an_empty_file_says_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / ".lakectl.yaml").write_text(content)
    assert load({"HOME": str(tmp_path)} | LAKEBED).access_key_id == "lakebed-key"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClientSettingsError, match=r"cannot read .*missing\.yaml: No such file"):
        load(LAKEBED, config_file=tmp_path / "missing.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(ClientSettingsError, match=r"cannot read .*binary\.yaml: it is not UTF-8"):
        load(LAKEBED, config_file=tmp_path / "binary.yaml")


def test_a_secret_is_not_shown() -> None:
    assert "lakebed-secret" not in repr(load(LAKEBED))
