// Version, health and configuration of the server.

import { html } from "../vendor/preact-htm.js";
import { get } from "../api.js";
import { Badge, Code, Facts, Heading, Shown } from "../components.js";
import { Icon } from "../icons.js";
import { VERSION, hasFeature, useLoad } from "../state.js";

/** @returns {Promise<any>} */
async function readiness() {
  const answer = await fetch("/readiness");
  return { isReady: answer.ok, text: await answer.text() };
}

export function About() {
  const config = useLoad((signal) => get("/config", {}, signal), "");
  const ready = useLoad(readiness, "");
  const origin = window.location.origin;
  return html`<${Heading} title="About this server" />
    <div class="columns"><section class="card"><header><h2>Server</h2></header><div class="pad"><${Facts} across of=${{
        Version: VERSION,
        Endpoint: html`<code>${origin}</code>`,
        Health: ready.data ? html`<${Badge} tone=${ready.data.isReady ? "good" : "bad"}>${ready.data.isReady ? "ready" : "not ready"}<//>` : ready.error ? html`<${Badge} tone="bad">unknown<//>` : "…",
        Actions: hasFeature("actions") ? "on" : "off",
        "Automatic garbage collection": hasFeature("reclaim") ? "yes" : "no",
      }} /></div></section>
      <section class="card"><header><h2>Storage</h2></header><div class="pad"><${Shown} of=${config} rows=${3}>${(/** @type {any} */ found) => html`<${Facts} across of=${{
        Kind: found.storage_config.blockstore_type,
        "Example namespace": html`<code>${found.storage_config.blockstore_namespace_example}</code>`,
        "Presigned URLs": found.storage_config.pre_sign_support ? "yes" : "no",
        "Presigned multipart uploads": found.storage_config.pre_sign_multipart_upload ? "yes" : "no",
      }} />`}<//></div></section></div>
    <section class="card"><header><h2>Use it from Python</h2></header><div class="pad stack"><p class="soft">lakeFS clients work unchanged: <code>pip install lakefs</code>.</p>
      <${Code} text=${`import lakefs\nfrom lakefs.client import Client\n\nclient = Client(host="${origin}", username="…", password="…")\nfor repository in lakefs.repositories(client=client):\n    print(repository.id)`} /></div></section>
    <section class="card"><header><h2>For programs</h2></header><ul class="items">
      <li><a href="/docs"><${Icon} name="file" /> docs</a><span class="soft">interactive API reference</span></li>
      <li><a href="/openapi.json"><${Icon} name="code" /> openapi.json</a><span class="soft">OpenAPI description for tools</span></li>
      <li><a href="/metrics"><${Icon} name="info" /> metrics</a><span class="soft">Prometheus metrics</span></li>
      <li><a href="/healthcheck"><${Icon} name="check" /> healthcheck</a><span class="soft">liveness probe</span></li></ul></section>`;
}
