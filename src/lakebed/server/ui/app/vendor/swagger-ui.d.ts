/** Swagger UI, as the page at /docs starts it. */
declare function SwaggerUIBundle(options: Record<string, unknown>): unknown;
