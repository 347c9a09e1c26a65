"""OpenTelemetry traces of requests; imported only if enabled in the settings (extra ``otel``).

A request is a root span, or a child of the caller's span given by ``traceparent``. The layers below
add spans by `lakebed.base.tracing.traced`. Spans contain names, not paths or texts of errors: their
recipients may differ from those of the logs.
"""

from collections.abc import Callable
from multiprocessing.util import Finalize
from typing import Final
from wsgiref.types import WSGIEnvironment

from opentelemetry import context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from lakebed import __version__
from lakebed.base import tracing
from lakebed.server.http.request import RequestRecord

_EXPORT_SECONDS: Final = 5
_FAILURE: Final = 500


class RequestSpans:
    """Spans of requests."""

    def __init__(self, processor: SpanProcessor) -> None:
        """Turn tracing on in this process; ended spans go to the processor."""
        resource = Resource.create({"service.name": "lakebed", "service.version": __version__})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("lakebed")
        self._propagator = TraceContextTextMapPropagator()
        tracing.turn_on(
            lambda name: self._tracer.start_as_current_span(
                name, record_exception=False, set_status_on_exception=False
            )
        )

    def begin(self, environ: WSGIEnvironment, record: RequestRecord) -> Callable[[], None]:
        """Start the span of a request, which ends with the request.

        Returns:
            The function to call, in this thread, when the application has returned.
        """
        given = environ.get("HTTP_TRACEPARENT")
        parent = self._propagator.extract({"traceparent": given}) if given else context.Context()
        span = self._tracer.start_span(record.method, parent, kind=SpanKind.SERVER)
        token = context.attach(set_span_in_context(span))

        def end() -> None:
            if record.operation:
                span.update_name(record.operation)
            span.set_attribute("http.request.method", record.method)
            span.set_attribute("http.response.status_code", record.status)
            span.set_attribute("lakebed.operation", record.operation)
            span.set_attribute("lakebed.request_id", record.request_id)
            if record.kind:
                span.set_attribute("error.type", record.kind)
            if record.status >= _FAILURE:
                span.set_status(Status(StatusCode.ERROR))
            span.end()

        record.at_end(end)
        return lambda: context.detach(token)

    def close(self) -> None:
        """Turn tracing off and flush the remaining spans."""
        tracing.turn_off()
        self._provider.shutdown()


def begin_tracing(endpoint: str) -> RequestSpans:
    """Send the spans of this process to a collector, by OTLP over HTTP, until the process ends."""
    exporter = OTLPSpanExporter(endpoint=endpoint, timeout=_EXPORT_SECONDS)
    spans = RequestSpans(BatchSpanProcessor(exporter))
    Finalize(None, spans.close, exitpriority=1)
    return spans
