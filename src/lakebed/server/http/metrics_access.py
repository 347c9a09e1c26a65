"""Access control of ``/metrics``."""

from lakebed.auth.policy.addresses import is_in, parse_address, parse_network
from lakebed.auth.secrets import same_secret
from lakebed.base.errors import LakebedError
from lakebed.server.settings import MetricsSettings


class MetricsRefused(LakebedError):
    """The settings do not let this client read the metrics."""

    kind = "metrics_refused"

    def __init__(self) -> None:
        super().__init__(
            "access to the metrics is restricted: connect from a network in metrics.networks, or"
            " send metrics.key as a bearer token"
        )


class MetricsReaders:
    """Clients allowed to read the metrics: all, unless the settings restrict them."""

    def __init__(self, settings: MetricsSettings) -> None:
        self._networks = tuple(parse_network(network) for network in settings.networks)
        self._key = settings.key

    def may_read(self, client: str, authorization: str | None) -> bool:
        """Whether a client may, by its address or by its ``Authorization`` header."""
        if not self._networks and self._key is None:
            return True
        address = parse_address(client)
        if address is not None and is_in(address, self._networks):
            return True
        scheme, _, token = (authorization or "").partition(" ")
        is_bearer = scheme.lower() == "bearer" and self._key is not None
        return is_bearer and same_secret(token.strip(), self._key or "")
