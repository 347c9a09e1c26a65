"""What an installation may set about hooks."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSettings:
    """Variables of the server's environment that action files may use as ``{{ ENV.NAME }}``."""

    enabled: bool = True
    """Whether they may use any."""
    prefix: str = "LAKEFSACTION_"
    """Only variables whose names begin with it are given; others are read as empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LuaSettings:
    """Lua hooks. Each runs in a process of its own."""

    net_http_enabled: bool = False
    """Whether scripts may send HTTP requests, to where webhooks may go."""
    memory_mib: int = 256
    """The memory that the process of a script may use for the script's values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookLimits:
    """Hooks that action files ask for."""

    enabled: bool = True
    """Whether action files are read at all."""
    env: EnvironmentSettings = EnvironmentSettings()
    lua: LuaSettings = LuaSettings()
    commands: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Programs that hooks of type ``command`` may run: a name, and the program with its first
    arguments. Action files choose one by its name and may add arguments."""
    allow_private_networks: bool = False
    """Whether hooks may send requests to private and loopback addresses. Those of the cloud's
    metadata service (link-local) stay refused unless `allowed_networks` names them."""
    allowed_networks: tuple[str, ...] = ()
    """Networks that hooks may send requests to, beside public ones: ``10.1.0.0/16``."""
    run_days: int = 30
    """How long runs and their logs are kept."""
