// Concurrent uploads of files and folders.

import { html, useState } from "./vendor/preact-htm.js";
import { explain, path, upload } from "./api.js";
import { counted, nameOf, size } from "./format.js";
import { notify } from "./state.js";

const AT_ONCE = 3;
const SHOWN = 6;

/** @typedef {{id: number, path: string, file: File, share: number, state: "waiting" | "sending" | "done" | "failed", error: string, cancel?: () => void}} Item */
/** @typedef {{path: string, file: File}} Chosen */

let lastId = 0;

/** @param {string} name @param {string} branch @param {string} prefix @param {() => void} onDone */
export function useUploads(name, branch, prefix, onDone) {
  const [items, setItems] = useState(/** @type {Item[]} */ ([]));
  const change = (/** @type {Item} */ item, /** @type {Partial<Item>} */ values) => {
    Object.assign(item, values);
    setItems((all) => [...all]);
  };
  const send = async (/** @type {Item} */ item) => {
    if (item.state === "failed") return;
    const sent = upload(path`/repositories/${name}/branches/${branch}/objects`, { path: item.path }, item.file, (share) => change(item, { share }));
    change(item, { state: "sending", cancel: sent.cancel });
    try {
      await sent.done;
      change(item, { state: "done", share: 1 });
    } catch (error) {
      change(item, { state: "failed", error: explain(error) });
    }
  };
  const add = async (/** @type {Chosen[]} */ files) => {
    const added = files.map(({ path: place, file }) => /** @type {Item} */ ({ id: (lastId += 1), path: prefix + place, file, share: 0, state: "waiting", error: "" }));
    setItems((all) => [...all, ...added]);
    const waiting = [...added];
    const work = async () => {
      for (let item = waiting.shift(); item; item = waiting.shift()) await send(item);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    const done = added.filter((each) => each.state === "done");
    if (done.length) notify(`Uploaded ${done.length === 1 ? nameOf(done[0].path) : counted(done.length, "file")} to ${branch}, uncommitted`);
    setItems((all) => all.filter((each) => each.state !== "done"));
    onDone();
  };
  return {
    items,
    add,
    clear: () => setItems([]),
    choose: (/** @type {any} */ event) => {
      const files = [...event.target.files].map((file) => ({ path: file.webkitRelativePath || file.name, file }));
      event.target.value = "";
      return add(files);
    },
  };
}

/** @param {{of: ReturnType<typeof useUploads>}} props */
export function Uploads({ of }) {
  if (of.items.length === 0) return null;
  const open = of.items.filter((each) => each.state !== "failed");
  const shown = [...of.items].sort((one, other) => Number(other.state === "failed") - Number(one.state === "failed")).slice(0, SHOWN);
  return html`<section class="card" aria-label="Uploads"><header><h2>${open.length ? `Uploading ${counted(open.length, "file")}` : "Some uploads failed"}</h2>
      ${open.length ? html`<button onClick=${() => of.items.forEach((each) => (each.state === "waiting" ? (each.state = "failed") : each.cancel?.()))}>Cancel all</button>` : html`<button onClick=${of.clear}>Dismiss</button>`}</header>
    <ul class="uploads pad">${shown.map((each) => html`<li key=${each.id}><span title=${each.path}>${each.path}</span><span class="soft small">${each.state === "failed" ? "failed" : size(each.file.size)}</span>
      ${each.state === "failed" ? html`<span class="wrong small">${each.error || "Cancelled"}</span>` : html`<progress aria-label=${each.path} value=${each.share} max="1" />`}</li>`)}</ul>
    ${of.items.length > SHOWN && html`<p class="pad soft small">And ${of.items.length - SHOWN} more.</p>`}</section>`;
}

/**
 * The dropped files, including those in folders.
 * @param {DataTransfer} transfer
 * @returns {Promise<Chosen[]>}
 */
export async function droppedFiles(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (entries.length === 0) return [...transfer.files].map((file) => ({ path: file.name, file }));
  /** @type {Chosen[]} */
  const found = [];
  for (const entry of entries) await walk(/** @type {any} */ (entry), "", found);
  return found;
}

/** @param {any} entry @param {string} prefix @param {Chosen[]} found */
async function walk(entry, prefix, found) {
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    found.push({ path: prefix + entry.name, file });
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return;
    for (const each of some) await walk(each, `${prefix}${entry.name}/`, found);
  }
}
