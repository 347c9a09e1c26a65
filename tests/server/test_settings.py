import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from lakebed.block import AzureSettings, LocalSettings, MemorySettings, S3Settings, URLSettings
from lakebed.lake.settings import LinkSettings
from lakebed.server.config_files import load
from lakebed.server.processes.preflight import warnings_of
from lakebed.server.quickstart import create_key, flags_of
from lakebed.server.settings import DatabaseSettings, ServerSettings, SettingsError, masked

KEY: Final = "a secret key of the tests"
KEYED: Final = {"LAKEBED_SERVER__AUTH__SECRET_KEY": KEY}


def from_yaml(
    tmp_path: Path, text: str, environment: Mapping[str, str] = KEYED, **flags: object
) -> ServerSettings:
    file = tmp_path / "lakebed.yaml"
    file.write_text(text)
    dotted = {key.replace("__", "."): value for key, value in flags.items()}
    return load(file, environment=environment, flags=dotted)


def problems_of(tmp_path: Path, text: str, **environment: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        from_yaml(tmp_path, text, KEYED | environment)
    return caught.value.problems


def test_the_defaults_need_only_a_key() -> None:
    settings = load(environment=KEYED)
    assert (settings.listen.host, settings.listen.port) == ("127.0.0.1", 8000)
    assert (settings.workers, settings.limits.threads) == (2, 784)
    assert settings.blockstore.block == LocalSettings(Path("data/objects"))
    assert settings.auth.key() == KEY.encode()
    with pytest.raises(SettingsError, match=r"auth.secret_key is missing"):
        load(environment={})


def test_a_storage_by_url_needs_its_url(tmp_path: Path) -> None:
    assert problems_of(tmp_path, "blockstore: {type: url}") == [
        "blockstore.type is url: set blockstore.url too"
    ]
    settings = from_yaml(tmp_path, "blockstore: {type: url, url: 'shelf://user:hush@host'}")
    assert settings.blockstore.block == URLSettings("shelf://user:hush@host")
    assert masked(settings.blockstore)["url"] == "shelf://user:********@host"


def test_each_source_has_the_word_over_the_one_before(tmp_path: Path) -> None:
    text = "listen: {host: 127.0.0.2, port: 1}\nprocesses: {workers: 3}"
    environment = KEYED | {"LAKEBED_SERVER__LISTEN__PORT": "2", "OTHER": "x"}
    settings = from_yaml(tmp_path, text, environment)
    assert (settings.listen.host, settings.listen.port) == ("127.0.0.2", 2)
    assert settings.workers == 3
    assert from_yaml(tmp_path, text, environment, listen__port=3).listen.port == 3


def test_an_empty_file_or_section_sets_nothing(tmp_path: Path) -> None:
    assert from_yaml(tmp_path, "") == load(environment=KEYED)
    assert from_yaml(tmp_path, "listen:\n") == load(environment=KEYED)


def test_every_type_is_read_from_the_environment(tmp_path: Path) -> None:
    settings = load(
        environment=KEYED
        | {
            "LAKEBED_SERVER__BLOCKSTORE__TYPE": "s3",
            "LAKEBED_SERVER__BLOCKSTORE__S3__PATH_STYLE": "true",
            "LAKEBED_SERVER__BLOCKSTORE__S3__ACCESS_KEY_ID": "123",
            "LAKEBED_SERVER__BLOCKSTORE__LOCAL__ROOT": "/srv",
            "LAKEBED_SERVER__BLOCKSTORE__LOCAL__SYNC": "false",
            "LAKEBED_SERVER__LIMITS__STALL_SECONDS": "5",
            "LAKEBED_SERVER__GC__GAP_SECONDS": "1.5e4",
            "LAKEBED_SERVER__LINKS__REQUIRE_OBJECT": "false",
            "LAKEBED_SERVER__LISTEN__TRUSTED_PROXIES": "10.0.0.0/8, ::1,",
        }
    )
    assert settings.blockstore.block == S3Settings(access_key_id="123", path_style=True)
    assert settings.blockstore.local == LocalSettings(Path("/srv"), sync=False)
    assert settings.limits.stall_seconds == 5.0
    assert settings.gc.gap_seconds == 15000.0
    assert settings.links == LinkSettings(require_object=False)
    assert settings.listen.trusted_proxies == ("10.0.0.0/8", "::1")


def test_a_list_is_read_from_a_file(tmp_path: Path) -> None:
    settings = from_yaml(tmp_path, "listen: {trusted_proxies: [10.0.0.0/8, '::1']}")
    assert settings.listen.trusted_proxies == ("10.0.0.0/8", "::1")
    yaml.safe_dump(masked(settings))
    (problem,) = problems_of(tmp_path, "listen: {trusted_proxies: 10.0.0.0/8}")
    assert problem.startswith("listen.trusted_proxies: expected a list of texts, not '10.0.0.0/8'")


@pytest.mark.parametrize("umask", ["", "0o77", "78", "700", "-1", "00077"])
def test_a_umask_is_octal_and_leaves_the_user_all_permissions(tmp_path: Path, umask: str) -> None:
    assert from_yaml(tmp_path, "processes: {umask: '027'}").processes.umask == "027"
    (problem,) = problems_of(tmp_path, f"processes: {{umask: '{umask}'}}")
    assert problem.startswith(f'processes.umask is "{umask}": use octal digits in quotes')


def test_an_unknown_key_is_an_error_that_says_where_and_suggests_the_right_one(
    tmp_path: Path,
) -> None:
    file = tmp_path / "lakebed.yaml"
    prefix = "LAKEBED_SERVER__"
    text = "listen: {prot: 1}\nserver: {workers: 2}\ns3: {acces_key_id: x}\nzzz: 1"
    assert problems_of(tmp_path, text, LAKEBED_SERVER__LISTN__PORT="1") == [
        f"{file}: unknown setting listen.prot: did you mean listen.port?",
        f"{file}: unknown setting server.workers: did you mean processes.workers?",
        f"{file}: unknown setting s3.acces_key_id: did you mean blockstore.s3.access_key_id?",
        f"{file}: unknown setting zzz",
        f"unknown variable {prefix}LISTN__PORT: did you mean {prefix}LISTEN__PORT?",
    ]


def test_a_wrong_type_says_what_was_expected_and_from_where(tmp_path: Path) -> None:
    file = tmp_path / "lakebed.yaml"
    text = "listen: {port: '80'}\nlogging: {level: loud}\ngc: 7\ndatabase: {url: 5}"
    name = "variable LAKEBED_SERVER__PROCESSES__WORKERS"
    found = problems_of(
        tmp_path,
        text,
        LAKEBED_SERVER__PROCESSES__WORKERS="two",
    )
    assert sorted(found) == sorted(
        [
            f"{file}: gc is a section: settings belong below it",
            f"listen.port: expected a whole number, not '80' (from {file})",
            f"processes.workers: expected a whole number, not 'two' (from {name})",
            f"logging.level: expected one of debug, info, warning, error, not 'loud' (from {file})",
            f"database.url: expected a text (from {file})",
        ]
    )


@pytest.mark.parametrize(
    ("s3", "said"),
    [
        ("path_style: 5", "path_style: expected true or false or auto, not 5"),
        (
            "server_side_encryption: 'aws:kms:dsse'",
            "server_side_encryption: expected one of AES256, aws:kms, not 'aws:kms:dsse'",
        ),
        (
            "server_side_encryption_kms_key_id: k",
            "server_side_encryption_kms_key_id needs server_side_encryption aws:kms, not none",
        ),
        (
            "server_side_encryption: AES256, server_side_encryption_kms_key_id: k",
            "server_side_encryption_kms_key_id needs server_side_encryption aws:kms, not AES256",
        ),
        (
            "server_side_encryption: 'aws:kms', server_side_encryption_kms_key_id: a b",
            "server_side_encryption_kms_key_id must be the id or ARN of a key, not 'a b'",
        ),
    ],
)
def test_settings_of_s3_have_few_values(tmp_path: Path, s3: str, said: str) -> None:
    (problem,) = problems_of(tmp_path, f"blockstore: {{type: s3, s3: {{{s3}}}}}")
    assert problem.removeprefix("blockstore.s3").lstrip(".: ").startswith(said)


def test_commands_of_hooks_are_programs_with_arguments(tmp_path: Path) -> None:
    text = "hooks: {commands: {scan: [/opt/scan, --deep]}}"
    loaded = from_yaml(tmp_path, text)
    assert loaded.hooks.commands == {"scan": ("/opt/scan", "--deep")}
    (problem,) = problems_of(tmp_path, "hooks: {commands: {scan: /opt/scan}}")
    assert problem.startswith(
        "hooks.commands: expected a mapping of names to lists of texts, not {'scan'"
    )
    (problem,) = problems_of(tmp_path, "hooks: {commands: {scan: []}}")
    assert problem == "hooks.commands.scan is empty: give a program and its first arguments"


def test_a_section_that_is_not_complete_says_what_is_missing(tmp_path: Path) -> None:
    text = "blockstore: {type: azure, azure: {endpoint: 'http://127.0.0.1:1/x'}}"
    assert problems_of(tmp_path, text) == ["blockstore.azure.account is missing"]
    assert problems_of(tmp_path, "blockstore: {type: azure}") == [
        "blockstore.type is azure: set blockstore.azure too"
    ]
    settings = from_yaml(tmp_path, "blockstore: {type: azure, azure: {account: a}}")
    assert settings.blockstore.block == AzureSettings("a")


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("listen.port", 0, "listen.port is 0"),
        ("listen.port", 70000, "use 1 to 65535"),
        ("listen.trusted_proxies", ("10.0.0.0/99",), "'10.0.0.0/99' is not an address or"),
        ("listen.trusted_proxies", ("::1", "10.0.0.1/8"), "'10.0.0.1/8' is not an address or"),
        ("listen.trusted_proxies", ("proxy",), "'proxy' is not an address or a network"),
        ("listen.objects_origin", "objects.example", "write it as https://objects.example.com"),
        ("listen.objects_origin", "https://objects.example/", "in lower case and without a path"),
        ("listen.cors_origins", ("https://a.example", "*"), "listen.cors_origins is '*': write it"),
        ("metrics.networks", ("prometheus",), "metrics.networks: 'prometheus' is not an address"),
        ("metrics.key", "short", "metrics.key is too short"),
        ("processes.workers", 0, "processes.workers is 0"),
        ("processes.workers", -1, "processes.workers is -1"),
        ("limits.stall_seconds", math.nan, "limits.stall_seconds is nan"),
        ("limits.stall_seconds", math.inf, "limits.stall_seconds is inf"),
        ("cache.memory_bytes", 0, "cache.memory_bytes is 0"),
        ("processes.builders", 0, "processes.builders is 0"),
        ("limits.request_seconds", 900.0, "longest_request_seconds (600) must not be less"),
        ("gc.longest_request_seconds", 900.0, "grace_seconds (900) must be above"),
        ("gc.gap_seconds", 1199.0, "at least twice scan_limit_seconds"),
        ("gc.min_age_seconds", 43199.0, "at least twice link_life_seconds"),
        ("gc.copy_window_seconds", 43201.0, "at least twice copy_window_seconds"),
        ("limits.transfer_seconds", 43201.0, "at least twice limits.transfer_seconds"),
        ("auth.secret_key", "short", "16 characters"),
        ("auth.secret_key_file", Path("/nowhere/key"), "No such file"),
    ],
)
def test_settings_are_checked_against_each_other(key: str, value: object, complaint: str) -> None:
    flags: dict[str, object] = {key: value}
    with pytest.raises(SettingsError) as caught:
        load(environment=KEYED, flags=flags)
    assert complaint in str(caught.value)


def test_versions_are_deleted_on_s3_only(tmp_path: Path) -> None:
    azure = "blockstore: {type: azure, azure: {account: a}}\ngc: {versions: delete}"
    (problem,) = problems_of(tmp_path, azure)
    assert problem.startswith("gc.versions is delete, which needs S3")
    assert (
        from_yaml(tmp_path, "blockstore: {type: s3}\ngc: {versions: delete}").gc.versions
        == "delete"
    )
    (problem,) = problems_of(tmp_path, "gc: {versions: remove}")
    assert "gc.versions" in problem


def test_times_of_seconds_are_possible(tmp_path: Path) -> None:
    text = """
    engine: {grace_seconds: 2, scan_limit_seconds: 1}
    limits: {request_seconds: 1, transfer_seconds: 1}
    gc: {gap_seconds: 2, min_age_seconds: 2, link_life_seconds: 1, presign_life_seconds: 1,
         copy_window_seconds: 1, longest_request_seconds: 1, skew_seconds: 1}
    """
    assert from_yaml(tmp_path, text).gc.min_age_seconds == 2


def test_the_key_may_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    settings = load(environment={}, flags={"auth.secret_key_file": str(file)})
    assert settings.auth.key() == KEY.encode()
    with pytest.raises(SettingsError, match="not both"):
        load(environment=KEYED, flags={"auth.secret_key_file": str(file)})


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        load(tmp_path / "missing.yaml", environment=KEYED)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(SettingsError, match="not UTF-8"):
        load(tmp_path / "binary", environment=KEYED)
    with pytest.raises(SettingsError, match="expected sections"):
        from_yaml(tmp_path, "- 1")


@pytest.mark.parametrize(
    "text",
    [
        "listen: {port: 2026-13-45}",
        "listen: {port: %s}" % ("9" * 5000),
        "[" * 500,
        "!!int ''",
        "!!timestamp x",
        "!!bool x",
    ],
)
def test_a_file_with_values_that_cannot_be_is_an_error(tmp_path: Path, text: str) -> None:
    assert problems_of(tmp_path, text) == [f"{tmp_path}/lakebed.yaml: not valid YAML"]


def test_a_section_that_holds_itself_is_an_error(tmp_path: Path) -> None:
    problems = problems_of(tmp_path, "listen: &a\n  other: *a")
    assert all("unknown setting listen.other" in problem for problem in problems)


def test_a_small_file_that_stands_for_a_large_value_is_an_error(tmp_path: Path) -> None:
    lists = [f"- &a{at} [*a{at - 1}, *a{at - 1}]" for at in range(1, 40)]
    text = "\n".join(["listen:", "  port:", "  - &a0 [x]", *(f"  {each}" for each in lists)])
    (problem,) = problems_of(tmp_path, text)
    assert problem.startswith("listen.port: expected a whole number, not [")
    assert len(problem) < 1000


SECRET: Final = "hunter2-hunter2-hunter2"


def test_no_secret_is_ever_shown(tmp_path: Path) -> None:
    text = f"""
    auth: {{secret_key: {SECRET}}}
    blockstore: {{s3: {{secret_access_key: {SECRET}, session_token: {SECRET}}},
                  azure: {{account: a, account_key: {SECRET}}}}}
    """
    url = f"postgresql://me:{SECRET}@{SECRET}@db:5432/x?sslpassword={SECRET}&a=b"
    settings = replace(from_yaml(tmp_path, text, {}), database=DatabaseSettings(url=url))
    shown: dict[str, Any] = masked(settings)
    assert SECRET not in yaml.safe_dump(shown) + repr(settings) + str(settings)
    assert shown["database"]["url"] == "postgresql://me:********@db:5432/x?sslpassword=********&a=b"
    assert shown["blockstore"]["s3"]["secret_access_key"] == "********"
    assert shown["blockstore"]["azure"]["account"] == "a"


@pytest.mark.parametrize(
    "text",
    [
        f"auth: {{secret_key: [{SECRET}]}}",
        f"database: {{url: {{x: {SECRET}}}}}",
        f"auth: {{secret_key: {SECRET}\nlisten: [",
        f'auth:\n  secret_key: "{SECRET}\n',
    ],
)
def test_no_error_quotes_a_secret(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        from_yaml(tmp_path, text, {})
    assert SECRET not in str(caught.value)


def test_a_database_of_one_process_has_one_worker(tmp_path: Path) -> None:
    settings = from_yaml(tmp_path, "database: {url: 'rocksdb:///data/kv'}")
    assert (settings.workers, settings.in_memory) == (1, False)


def test_data_in_memory_forces_one_worker(tmp_path: Path) -> None:
    assert from_yaml(tmp_path, "database: {url: 'memory://'}").workers == 1
    settings = from_yaml(tmp_path, "blockstore: {type: memory}")
    assert (settings.workers, settings.blockstore.block) == (1, MemorySettings())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("database.url", "sqlite:///{root}/lake/lakebed.db"),
        ("database.url", "rocksdb:///{root}/lake/kv"),
        ("auth.secret_key_file", "{root}/secret.key"),
        ("logging.file", "{root}/log"),
        ("cache.disk_folder", "{root}/cache"),
        ("blockstore.local.root", "{root}/.."),
        ("blockstore.local.root", "{root}/link"),
    ],
)
def test_no_file_of_the_server_lies_among_its_objects(tmp_path: Path, key: str, value: str) -> None:
    root = tmp_path / "objects"
    root.mkdir()
    (root / "link").symlink_to(tmp_path)
    (root / "secret.key").write_text(KEY)
    flags: dict[str, object] = {"blockstore.local.root": str(root), key: value.format(root=root)}
    if key == "auth.secret_key_file":
        flags["auth.secret_key"] = None
    file = tmp_path / "lakebed.yaml"
    file.write_text("")
    with pytest.raises(SettingsError) as caught:
        load(file, environment=KEYED, flags=flags)
    expected = "the settings file" if key == "blockstore.local.root" else key
    assert [each for each in caught.value.problems if f"({expected})" in each], caught.value
    # On another storage they are nobody's objects.
    load(file, environment=KEYED, flags={**flags, "blockstore.type": "memory"})


def test_objects_in_a_folder_of_their_own_are_no_problem(tmp_path: Path) -> None:
    flags = flags_of(tmp_path, "127.0.0.1", 8000)
    create_key(tmp_path)
    load(environment={}, flags=flags)


def test_a_database_in_clear_text_over_a_network_is_warned_of(tmp_path: Path) -> None:
    def warned(url: str) -> list[str]:
        return warnings_of(from_yaml(tmp_path, f"database: {{url: '{url}'}}"))

    (warning,) = warned("mysql://u:secret-word@db.corp/lakebed")
    assert "the connection to db.corp may be unencrypted" in warning
    assert "add tls=true" in warning
    assert "secret-word" not in warning
    (warning,) = warned("postgresql://u:secret-word@db.corp/lakebed")
    assert "add sslmode=verify-full" in warning
    assert warned("mysql://u:p@db.corp/lakebed?tls=true") == []
    assert warned("sqlite:///lakebed.db") == []
