// The objects of a ref, by folder.

import { html, useEffect, useRef, useState } from "../vendor/preact-htm.js";
import { get, getAll, path, post, url } from "../api.js";
import { Badge, Button, Empty, ErrorBox, Filter, Form, Loading, Menu, More, Time, copyText } from "../components.js";
import { count, counted, extensionOf, nameOf, size } from "../format.js";
import { Icon } from "../icons.js";
import { Preview } from "../preview.js";
import { RefPicker } from "../refs.js";
import { Link, go, inRepository } from "../router.js";
import { notify, notifyError, remember, useAction, useList, useLoad, useRefusal } from "../state.js";
import { Snippets } from "../snippets.js";
import { Uploads, droppedFiles, useUploads } from "../uploads.js";

const TABLES = new Set(["parquet", "csv", "tsv", "arrow", "feather", "jsonl", "ndjson"]);

/** @param {{name: string, repository: any, query: URLSearchParams}} props */
export function Objects({ name, repository, query }) {
  const asked = query.get("ref");
  const ref = asked ?? repository.data?.default_branch;
  if (repository.error) return html`<${ErrorBox} error=${repository.error} retry=${repository.reload} />`;
  if (!ref) return html`<div class="card"><${Loading} rows=${6} /></div>`;
  return html`<${Listing} name=${name} of=${ref} prefix=${query.get("path") ?? ""} search=${query.get("search") ?? ""} readOnly=${Boolean(repository.data?.read_only)} />`;
}

/** @param {{name: string, of: string, prefix: string, search: string, readOnly: boolean}} props A `search` covers all folders below. */
function Listing({ name, of: ref, prefix, search, readOnly }) {
  const [text, setText] = useState(search);
  const [begins, setBegins] = useState("");
  const [dialog, setDialog] = useState(/** @type {any} */ (null));
  const [over, setOver] = useState(false);
  const chooser = useRef(/** @type {any} */ (null));
  const folders = useRef(/** @type {any} */ (null));
  const all = path`/repositories/${name}/refs/${ref}/objects`;
  const list = useList(`${all}/${search ? "search" : "ls"}`, search ? { prefix, text: search } : { prefix: prefix + begins, delimiter: "/", user_metadata: false }, 200);
  const branch = useLoad((signal) => get(path`/repositories/${name}/branches/${ref}`, {}, signal).catch(() => null), `${name} ${ref}`);
  const uploads = useUploads(name, ref, prefix, () => list.reload());
  useEffect(() => {
    setText(search);
    setBegins("");
  }, [ref, prefix, search]);
  useEffect(() => remember(`refs.${name}`, ref), [ref]);
  // Loaded entries are filtered immediately; Enter and the buttons query the server.
  const items = list.items.filter((each) => !text || each.path.slice(prefix.length).toLowerCase().includes(text.toLowerCase()));
  const isBranch = Boolean(branch.data);
  const refusal = useRefusal(name, ref, readOnly);
  const why = refusal ? refusal : branch.data === null ? "Pick a branch to upload to" : "";
  const here = (/** @type {string} */ place, sought = "") => inRepository(name, "objects", { ref, path: place, search: sought });
  const seek = (/** @type {any} */ event) => {
    event.preventDefault();
    go(here(prefix, text.trim()));
  };
  const change = (/** @type {string} */ value) => {
    setText(value);
    if (!value) setBegins("");
    if (!value && search) go(here(prefix));
  };
  const readme = list.items.find((each) => /^readme\.md$/i.test(each.path.slice(prefix.length)));
  const drop = async (/** @type {any} */ event) => {
    event.preventDefault();
    setOver(false);
    if (why || !isBranch) return notify(why || "Pick a branch to upload to", "failed");
    return uploads.add(await droppedFiles(event.dataTransfer));
  };
  return html`<div class="row"><${RefPicker} name=${name} value=${ref} onPick=${(/** @type {string} */ chosen) => go(inRepository(name, "objects", { ref: chosen, path: prefix }))} />
      <nav class="crumbs grow" aria-label="Folder"><${Link} href=${here("")}>${name}<//>${crumbs(prefix).map(
        ([part, place]) => html`<span key=${place} class="row"><span aria-hidden="true">/</span><${Link} href=${here(place)}>${part}<//></span>`,
      )}</nav>
      <${Button} icon="code" onClick=${() => setDialog({ kind: "snippets" })}>Code<//>
      <${Menu} kind="primary" label=${html`<${Icon} name="upload" />Upload<${Icon} name="down" />`}>${(/** @type {() => void} */ close) => html`
        ${why && html`<p>${why}.</p>`}
        <button disabled=${Boolean(why) || !isBranch} onClick=${() => { close(); chooser.current.click(); }}><${Icon} name="file" />Files</button>
        <button disabled=${Boolean(why) || !isBranch} onClick=${() => { close(); folders.current.click(); }}><${Icon} name="folder" />A folder</button>
        <p>Or drop files and folders on the list.</p>`}<//>
      <input ref=${chooser} type="file" multiple hidden aria-label="Files to upload" onChange=${(/** @type {any} */ event) => uploads.choose(event)} />
      <input ref=${folders} type="file" webkitdirectory hidden aria-label="A folder to upload" onChange=${(/** @type {any} */ event) => uploads.choose(event)} /></div>
    <${Uploads} of=${uploads} />
    <section class=${`card drop ${over ? "over" : ""}`} onDragOver=${(/** @type {any} */ event) => { event.preventDefault(); setOver(true); }} onDragLeave=${() => setOver(false)} onDrop=${drop}>
      <header><form class="grow row" onSubmit=${seek}><${Filter} label="Filter this folder" value=${text} onInput=${change} />
          ${text.trim() && text.trim() !== search && html`<button class="quiet" type="submit">Search all folders below</button>`}
          ${text && !search && text !== begins && list.hasMore && html`<button class="quiet" type="button" onClick=${() => setBegins(text)}>Search by prefix</button>`}
          ${search && html`<button class="quiet" type="button" onClick=${() => go(here(prefix))}>Back to folder</button>`}</form>
        <span class="soft small">${list.data && (search && text === search ? `${count(list.items.length)} found${list.hasMore ? " so far" : ""}` : text ? `${count(items.length)} of ${count(list.items.length)}${list.hasMore ? "+" : ""}` : counted(list.items.length, "entry", "entries") + (list.hasMore ? " so far" : ""))}</span></header>
      ${list.error ? html`<div class="pad"><${ErrorBox} error=${list.error} retry=${list.reload} /></div>` : !list.data ? html`<${Loading} rows=${8} />` : items.length === 0
        ? html`<${Nothing} text=${text} search=${search} hasMore=${list.hasMore} prefix=${prefix} canUpload=${isBranch && !why} />`
        : html`<table><thead><tr><th>Name</th><th class="number">Size</th><th class="wide-only">Changed</th><th><span class="unseen">Actions</span></th></tr></thead>
          <tbody>${items.map((each) => html`<${Row} key=${each.path} name=${name} ref_=${ref} prefix=${prefix} item=${each} canDelete=${isBranch && !why} onDelete=${() => setDialog({ kind: "delete", item: each })} onUse=${() => setDialog({ kind: "snippets", item: each })} />`)}</tbody></table>`}
      <${More} of=${list} what=${search ? "more results" : "more entries"} />
    </section>
    ${readme && html`<section class="card"><header><h2>${nameOf(readme.path)}</h2></header><${Preview} name=${name} of=${ref} path_=${readme.path} plain /></section>`}
    ${dialog?.kind === "snippets" && html`<${Snippets} name=${name} of=${ref} path_=${dialog.item?.path ?? prefix} onClose=${() => setDialog(null)} />`}
    ${dialog?.kind === "delete" && html`<${Deletion} name=${name} branch=${ref} item=${dialog.item} onClose=${() => setDialog(null)} onDone=${() => { setDialog(null); list.reload(); }} />`}`;
}

/** @param {string} prefix @returns {[string, string][]} */
function crumbs(prefix) {
  let place = "";
  return prefix.split("/").filter(Boolean).map((part) => [part, (place += `${part}/`)]);
}

/** @param {{text: string, search: string, hasMore: boolean, prefix: string, canUpload: boolean}} props */
function Nothing({ text, search, hasMore, prefix, canUpload }) {
  if (search && text === search)
    return html`<${Empty} icon="search" title=${`No path ${prefix ? `below ${prefix} ` : ""}contains “${search}”${hasMore ? " so far" : ""}`}>
      <p>${hasMore ? "The search pauses after many objects. Continue it, or search in a folder." : "It may be on another branch."}</p><//>`;
  if (text)
    return html`<${Empty} icon="search" title=${`No entry matches “${text}”`}>
      <p>${hasMore ? "Only the first entries of this folder are loaded. Press Enter to search all folders below." : "Press Enter to search all folders below."}</p><//>`;
  return html`<${Empty} icon="folder" title=${prefix ? "This folder is empty" : "No objects yet"}>
    <p>${canUpload ? "Drop files here, or use Upload. Uploaded files are uncommitted changes." : "Pick a branch to upload to it."}</p><//>`;
}

/** @param {{name: string, ref_: string, prefix: string, item: any, canDelete: boolean, onDelete: () => void, onUse: () => void}} props */
function Row({ name, ref_: ref, prefix, item, canDelete, onDelete, onUse }) {
  const isFolder = item.path_type === "common_prefix";
  const shown = item.path.slice(prefix.length) || item.path;
  const page = isFolder ? inRepository(name, "objects", { ref, path: item.path }) : inRepository(name, "object", { ref, path: item.path });
  const icon = isFolder ? "folder" : TABLES.has(extensionOf(item.path)) ? "table" : "file";
  const presign = async () => {
    try {
      const found = await get(path`/repositories/${name}/refs/${ref}/objects/stat`, { path: item.path, presign: true });
      await copyText(found.physical_address);
    } catch (error) {
      notifyError(error);
    }
  };
  return html`<tr class=${isFolder ? "folder" : ""}><td class="name"><${Link} href=${page}><${Icon} name=${icon} /><span title=${item.path}>${shown}</span><//></td>
    <td class="number soft">${isFolder ? "" : size(item.size_bytes)}</td><td class="soft wide-only">${isFolder ? "" : html`<${Time} at=${item.mtime} />`}</td>
    <td class="end"><${Menu} kind="bare" title=${`Actions for ${shown}`} label=${html`<${Icon} name="more" />`}>${(/** @type {() => void} */ close) => html`
      ${!isFolder && html`<a href=${url(path`/repositories/${name}/refs/${ref}/objects`, { path: item.path })} download><${Icon} name="download" />Download</a>`}
      <button onClick=${() => { close(); copyText(`lakefs://${name}/${ref}/${item.path}`); }}><${Icon} name="copy" />Copy path</button>
      ${!isFolder && html`<button onClick=${() => { close(); presign(); }}><${Icon} name="copy" />Copy presigned URL</button>`}
      <button onClick=${() => { close(); onUse(); }}><${Icon} name="code" />Code snippets…</button>
      <${Link} href=${inRepository(name, "commits", { ref, path: item.path })}><${Icon} name="commit" />History<//>
      ${canDelete ? html`<button class="danger" onClick=${() => { close(); onDelete(); }}><${Icon} name="garbage" />Delete</button>` : html`<p>To delete, pick a branch that is neither protected nor read-only.</p>`}`}<//></td></tr>`;
}

const DELETED_AT_ONCE = 1000;

/** @param {{name: string, branch: string, item: any, onClose: () => void, onDone: () => void}} props */
export function Deletion({ name, branch, item, onClose, onDone }) {
  const action = useAction();
  const isFolder = item.path_type === "common_prefix";
  const [progress, setProgress] = useState(0);
  const work = async () => {
    const paths = isFolder
      ? (await getAll(path`/repositories/${name}/refs/${branch}/objects/ls`, { prefix: item.path, user_metadata: false }, Infinity)).map((each) => each.path)
      : [item.path];
    for (let at = 0; at < paths.length; at += DELETED_AT_ONCE) {
      const answer = await post(path`/repositories/${name}/branches/${branch}/objects/delete`, { paths: paths.slice(at, at + DELETED_AT_ONCE) });
      if (answer.errors.length) throw new Error(`${answer.errors[0].path}: ${answer.errors[0].message}`);
      setProgress(Math.min(paths.length, at + DELETED_AT_ONCE));
    }
    notify(`Deleted ${isFolder ? counted(paths.length, "object") : nameOf(item.path)} on ${branch}, uncommitted`);
  };
  return html`<${Form} title=${isFolder ? "Delete a folder" : "Delete an object"} label="Delete" kind="danger" action=${action} onClose=${onClose}
    onSubmit=${async () => (await action.run(work)) && onDone()}>
    <p><code>${item.path}</code>${isFolder && " and its content"} will be deleted from <${Badge}>${branch}<//>, as an uncommitted change. Existing commits are not affected.</p>
    ${progress > 0 && html`<p class="hint">${counted(progress, "object")} deleted so far.</p>`}<//>`;
}
