"""Settings of hooks."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSettings:
    """Server environment variables that action files can use as ``{{ ENV.NAME }}``."""

    enabled: bool = True
    """Whether action files can use variables."""
    prefix: str = "LAKEFSACTION_"
    """Only variables with this prefix are available; others read as empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LuaSettings:
    """Lua hooks. Each runs in a process of its own."""

    net_http_enabled: bool = False
    """Whether scripts can send HTTP requests, to the same addresses as webhooks."""
    memory_mib: int = 256
    """Memory limit for the values of a script, in MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookLimits:
    """Hooks of action files."""

    enabled: bool = True
    """Whether action files are read."""
    env: EnvironmentSettings = EnvironmentSettings()
    lua: LuaSettings = LuaSettings()
    commands: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Programs for hooks of type ``command``: a name, and the program with its first arguments.
    Action files choose a program by its name and can add arguments."""
    command_memory_mib: int = 1024
    """Memory limit of each process of a command, in MiB."""
    allow_private_networks: bool = False
    """Whether hooks can send requests to private and loopback addresses. The cloud's metadata
    service (link-local) stays refused unless listed in `allowed_networks`."""
    allowed_networks: tuple[str, ...] = ()
    """Networks allowed for requests of hooks besides public ones: ``10.1.0.0/16``."""
    run_days: int = 30
    """How long runs and their logs are stored."""
