// An object: preview, details, last change.

import { html, useState } from "../vendor/preact-htm.js";
import { get, path, url } from "../api.js";
import { Button, Copy, Empty, Facts, Id, Shown, Time } from "../components.js";
import { exact, folderOf, nameOf, size } from "../format.js";
import { Icon } from "../icons.js";
import { Preview } from "../preview.js";
import { RefPicker } from "../refs.js";
import { Link, go, inRepository } from "../router.js";
import { Snippets } from "../snippets.js";
import { useLoad, useMissing, useRefusal } from "../state.js";
import { Deletion } from "./objects.js";

/** @param {{name: string, repository: any, query: URLSearchParams}} props */
export function ObjectPage({ name, repository, query }) {
  const ref = query.get("ref") ?? repository.data?.default_branch ?? "";
  const place = query.get("path") ?? "";
  const [dialog, setDialog] = useState("");
  const key = `${name} ${ref} ${place}`;
  const stats = useLoad((signal) => get(path`/repositories/${name}/refs/${ref}/objects/stat`, { path: place }, signal), key);
  const branch = useLoad((signal) => get(path`/repositories/${name}/branches/${ref}`, {}, signal).catch(() => null), `${name} ${ref}`);
  const folder = folderOf(place);
  const goBack = () => go(inRepository(name, "objects", { ref, path: folder }));
  const missing = useMissing({ remove: ["fs:DeleteObject", `repository/${name}/object/${place}`] });
  const refusal = useRefusal(name, ref, repository.data?.read_only);
  const why = branch.data === null ? "To delete, pick a branch" : refusal || missing.remove;
  return html`<div class="row"><${RefPicker} name=${name} value=${ref} onPick=${(/** @type {string} */ chosen) => go(inRepository(name, "object", { ref: chosen, path: place }))} />
      <nav class="crumbs grow" aria-label="Folder"><${Link} href=${inRepository(name, "objects", { ref })}>${name}<//>${folder && html`<span aria-hidden="true">/</span><${Link} href=${inRepository(name, "objects", { ref, path: folder })}>${folder.slice(0, -1)}<//>`}</nav></div>
    ${stats.error?.status === 404 ? html`<section class="card"><${Empty} icon="file" title="Object not found"><p><code>${place}</code> does not exist at ${ref}. It may be on another branch, or in an earlier commit.</p><div class="row"><button onClick=${goBack}>Show folder</button><${Link} class="button" href=${inRepository(name, "commits", { ref, path: place })}>Show history<//></div><//></section>` : html`
    <header class="heading"><div class="row"><h1>${nameOf(place)}</h1><${Copy} text=${`lakefs://${name}/${ref}/${place}`} what="path" /></div><div class="tools">
      <${Button} icon="code" onClick=${() => setDialog("snippets")}>Code<//>
      <${Button} kind="danger" icon="garbage" why=${why} onClick=${() => setDialog("delete")}>Delete<//>
      <a class="button primary" download href=${url(path`/repositories/${name}/refs/${ref}/objects`, { path: place })}><${Icon} name="download" />Download</a></div></header>
    <div class="split"><section class="card" aria-label="Preview"><${Preview} name=${name} of=${ref} path_=${place} /></section>
      <aside class="stack" aria-label="About this object"><section class="card"><header><h2>Details</h2></header><div class="pad"><${Shown} of=${stats} rows=${4}>${(/** @type {any} */ found) => html`<${Details} of=${found} />`}<//></div></section>
        <${Blame} name=${name} of=${ref} place=${place} /></aside></div>`}
    ${dialog === "snippets" && html`<${Snippets} name=${name} of=${ref} path_=${place} onClose=${() => setDialog("")} />`}
    ${dialog === "delete" && html`<${Deletion} name=${name} branch=${ref} item=${{ path: place, path_type: "object" }} onClose=${() => setDialog("")} onDone=${goBack} />`}`;
}

/** @param {{of: import("../api.js").ObjectStats}} props */
function Details({ of }) {
  return html`<${Facts} of=${{
    Size: `${size(of.size_bytes)}${(of.size_bytes ?? 0) >= 1000 ? ` (${of.size_bytes?.toLocaleString("en-US")} bytes)` : ""}`,
    Type: of.content_type,
    Changed: html`<${Time} at=${of.mtime} /><div class="soft small">${exact(of.mtime)}</div>`,
    Checksum: html`<${Id} id=${of.checksum} what="checksum" />`,
    "Physical address": html`<code class="small whole">${of.physical_address}</code> <${Copy} text=${of.physical_address} what="address" />`,
    ...Object.fromEntries(Object.entries(of.metadata ?? {}).map(([key, value]) => [`metadata: ${key}`, value])),
  }} />`;
}

/** @param {{name: string, of: string, place: string}} props */
function Blame({ name, of, place }) {
  const found = useLoad((signal) => get(path`/repositories/${name}/refs/${of}/commits`, { objects: [place], amount: 1, limit: true }, signal), `${name} ${of} ${place}`);
  return html`<section class="card"><header><h2>Last changed by</h2><${Link} class="small" href=${inRepository(name, "commits", { ref: of, path: place })}>History<//></header>
    <div class="pad"><${Shown} of=${found} rows=${2}>${(/** @type {any} */ page) => {
      const commit = page.results[0];
      if (!commit) return html`<p class="soft">Not committed yet.</p>`;
      return html`<div class="stack"><${Link} href=${inRepository(name, `commits/${commit.id}`)}><strong>${commit.message || "(no message)"}</strong><//>
        <p class="soft small">${commit.committer} · <${Time} at=${commit.creation_date} /></p></div>`;
    }}<//></div></section>`;
}
