"""Whether a failed request may have been sent, for drivers that use `requests`."""

from urllib3.exceptions import ConnectTimeoutError, NewConnectionError


def failed_to_connect(error: BaseException | None) -> bool:
    """Return whether an error of `requests` proves that no connection for the request was made.

    The reason is an error of urllib3, wrapped as "too many retries". Any other error may come from
    a connection that broke after the request was sent.
    """
    arguments = error.args if error is not None else ()
    reason = getattr(arguments[0], "reason", None) if arguments else None
    return isinstance(reason, NewConnectionError | ConnectTimeoutError)
