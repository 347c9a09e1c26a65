"""The certificate of a server, as the settings name it."""

from pathlib import Path

import pytest

from lakebed.server.processes.preflight import CannotStart, check_certificate
from lakebed.server.settings import ListenSettings, ServerSettings
from tests.kit.certificates import write_certificate


@pytest.fixture
def listen(tmp_path: Path) -> ListenSettings:
    certificate, key = write_certificate(tmp_path)
    return ListenSettings(port=0, tls_certificate=certificate, tls_key=key)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("missing", "No such file or directory"),
        ("other key", "the key does not match the certificate"),
        ("no certificate", "a file is not PEM"),
    ],
)
def test_certificates_that_cannot_be_used(
    listen: ListenSettings, tmp_path: Path, wrong: str, reason: str
) -> None:
    assert listen.tls_certificate is not None
    if wrong == "missing":
        listen.tls_certificate.unlink()
    elif wrong == "no certificate":
        listen.tls_certificate.write_text("nothing")
    else:
        (tmp_path / "other").mkdir()
        other, _ = write_certificate(tmp_path / "other")
        other.replace(listen.tls_certificate)
    with pytest.raises(
        CannotStart, match=rf"cannot use the certificate .*server\.crt with the key .*{reason}"
    ):
        check_certificate(listen)


def test_a_key_without_a_certificate_is_refused() -> None:
    settings = ServerSettings(listen=ListenSettings(tls_key=Path("server.key")))
    with pytest.raises(Exception, match="set both tls_certificate and tls_key, or neither"):
        settings.check()
