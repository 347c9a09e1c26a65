"""Whether a request that failed may have been sent, for drivers that use `requests`."""

from urllib3.exceptions import ConnectTimeoutError, NewConnectionError


def was_never_connected(error: BaseException | None) -> bool:
    """Whether an error of `requests` says that there was no connection to send a request on.

    It wraps that of urllib3, which is the reason of what it calls too many retries. Every other
    error may be that of a connection which broke after the request was sent.
    """
    arguments = error.args if error is not None else ()
    reason = getattr(arguments[0], "reason", None) if arguments else None
    return isinstance(reason, NewConnectionError | ConnectTimeoutError)
