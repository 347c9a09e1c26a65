// Differences of paths, and of rows of tables.

import { html, useState } from "./vendor/preact-htm.js";
import { get, path } from "./api.js";
import { Button, Empty, ErrorBox, Filter, Loading, More, Shown } from "./components.js";
import { counted, extensionOf, size } from "./format.js";
import { Icon } from "./icons.js";
import { Link, inRepository } from "./router.js";
import { useList, useLoad } from "./state.js";

/** @type {Record<string, [string, string]>} */
const KINDS = { added: ["A", "added"], changed: ["M", "changed"], removed: ["D", "removed"], conflict: ["C", "conflicting"] };
const COMPARED = new Set(["parquet", "csv", "tsv", "arrow", "feather", "jsonl", "ndjson"]);

/**
 * A list of differences. Tables can be compared row by row.
 * @param {{name: string, where: string, query?: any, left: string, right: string, empty: any, tools?: (item: any) => any}} props
 *   `left` and `right` are refs whose objects are compared row by row.
 */
export function Differences({ name, where, query = {}, left, right, empty, tools }) {
  const [prefix, setPrefix] = useState("");
  const list = useList(where, { ...query, prefix }, 100);
  const kinds = list.items.reduce((/** @type {Record<string, number>} */ all, each) => ({ ...all, [each.type]: (all[each.type] ?? 0) + 1 }), {});
  return html`<section class="card"><header><div class="row small">${Object.entries(kinds).map(([kind, amount]) => html`<span key=${kind} class="row"><span class=${`swatch ${kind}`}>${KINDS[kind]?.[0] ?? "?"}</span>${amount} ${KINDS[kind]?.[1] ?? kind}</span>`)}${list.hasMore && html`<span class="soft">so far</span>`}</div>
      <${Filter} label="Filter by path prefix" value=${prefix} onInput=${setPrefix} /></header>
    ${list.error ? html`<div class="pad"><${ErrorBox} error=${list.error} retry=${list.reload} /></div>` : !list.data ? html`<${Loading} rows=${5} />` : list.items.length === 0
      ? prefix ? html`<${Empty} icon="search" title=${`No changes below “${prefix}”`}><button onClick=${() => setPrefix("")}>Show all</button><//>` : empty
      : html`<ul class="items">${list.items.map((each) => html`<${Item} key=${each.path} name=${name} item=${each} left=${left} right=${right} tools=${tools} />`)}</ul>`}
    <${More} of=${list} what="more changes" /></section>`;
}

/** @param {{name: string, item: any, left: string, right: string, tools?: (item: any) => any}} props */
function Item({ name, item, left, right, tools }) {
  const [open, setOpen] = useState(false);
  const canCompare = item.type === "changed" && COMPARED.has(extensionOf(item.path)) && left && right;
  const ref = item.type === "removed" ? left : right;
  return html`<li><span class=${`swatch ${item.type}`} title=${KINDS[item.type]?.[1]}>${KINDS[item.type]?.[0] ?? "?"}<span class="unseen">${KINDS[item.type]?.[1]}</span></span>
    <span class="grow mono"><${Link} href=${inRepository(name, item.path_type === "common_prefix" ? "objects" : "object", { ref, path: item.path })}>${item.path}<//></span>
    <span class=${`soft small ${canCompare && tools ? "wide-only" : ""}`}>${item.type === "removed" ? "" : size(item.size_bytes)}</span>
    ${canCompare && html`<${Button} kind="quiet" icon="table" aria-expanded=${open} onClick=${() => setOpen(!open)}>${open ? "Hide rows" : "Compare rows"}<//>`}
    ${tools?.(item)}
    ${open && html`<div class="rows-of"><${RowDifferences} name=${name} place=${item.path} left=${left} right=${right} /></div>`}</li>`;
}

/** @param {number | null} value */
const rowsOf = (value) => (value === null ? "rows not counted" : counted(value, "row"));

/** @param {{name: string, place: string, left: string, right: string}} props */
function RowDifferences({ name, place, left, right }) {
  const [keys, setKeys] = useState(/** @type {string[]} */ ([]));
  const found = useLoad(
    (signal) => get(path`/repositories/${name}/refs/${left}/objects/preview/diff`, { right_ref: right, path: place, keys }, signal),
    `${left} ${right} ${place} ${keys}`,
  );
  const sideOf = (/** @type {any} */ data, /** @type {number} */ at) => (data.rows.every((/** @type {any} */ row) => [row.left, row.right].every((side) => !side || side[at] === null || /^-?[\d.]+(e[-+]?\d+)?$/.test(side[at]))) ? "number" : "");
  const some = (/** @type {any} */ data, /** @type {number} */ value) => `${data.complete ? "" : "at least "}${counted(value, "row")}`;
  return html`<${Shown} of=${found} rows=${4}>${(/** @type {any} */ data) => html`<div class="card">
    <header><div class="row small"><strong>${rowsOf(data.left_rows)} → ${rowsOf(data.right_rows)}</strong><span>${some(data, data.added)} added</span><span>${some(data, data.removed)} removed</span>${data.keys.length > 0 && html`<span>${some(data, data.changed)} changed</span>`}</div>
      ${(data.complete || data.keys.length > 0) && html`<fieldset class="row small"><legend class="unseen">Key columns</legend><span class="soft">Key columns</span>${data.shared_columns.slice(0, 12).map((/** @type {string} */ column) => html`<label key=${column} class="check"><input type="checkbox" checked=${data.keys.includes(column)}
        onInput=${(/** @type {any} */ event) => setKeys(event.target.checked ? [...data.keys, column] : data.keys.filter((/** @type {string} */ each) => each !== column))} /> ${column}</label>`)}</fieldset>`}</header>
    ${!data.complete && html`<div class="pad"><div class="notice warn"><${Icon} name="warning" /><div><strong>Comparison is incomplete</strong><p>${data.limit}</p></div></div></div>`}
    ${data.schema.length > 0 && html`<p class="pad small">${data.schema.map((/** @type {string} */ text) => html`<span key=${text} class="badge warn">${text}</span> `)}</p>`}
    ${data.rows.length === 0 ? data.complete ? html`<${Empty} icon="check" title="No row differences"><p>${data.schema.length ? "Same rows; only the columns differ." : "Same rows; order or file encoding differs."}</p><//>`
        : html`<${Empty} icon="table" title="No rows to show"><p>Rows that were not read may differ. Compare these versions with a program.</p><//>`
      : html`<div class="preview" tabindex="0" role="region" aria-label="Changed rows"><table><thead><tr><th><span class="unseen">Change</span></th>${data.columns.map((/** @type {string} */ column, /** @type {number} */ at) => html`<th key=${column} class=${sideOf(data, at)}><strong>${column}</strong></th>`)}</tr></thead>
        <tbody>${data.rows.map((/** @type {any} */ row, /** @type {number} */ at) => html`<tr key=${at} class=${row.kind}><td>${{ added: "+", removed: "−", changed: "±" }[/** @type {"added"} */ (row.kind)]}</td>${data.columns.map((/** @type {string} */ column, /** @type {number} */ each) => html`<${Cell} key=${column} row=${row} at=${each} side=${sideOf(data, each)} />`)}</tr>`)}</tbody></table></div>`}
    ${data.note && html`<p class="pad soft small">${data.note}</p>`}</div>`}<//>`;
}

/** @param {{row: any, at: number, side: string}} props */
function Cell({ row, at, side }) {
  const text = (/** @type {any} */ value) => (value === null ? "null" : value);
  if (row.kind !== "changed") return html`<td class=${side}>${text((row.kind === "added" ? row.right : row.left)[at])}</td>`;
  if (row.left[at] === row.right[at]) return html`<td class=${side}>${text(row.left[at])}</td>`;
  return html`<td class=${`edited ${side}`}><del>${text(row.left[at])}</del> <ins>${text(row.right[at])}</ins></td>`;
}

/** @param {{conflicts: string[], total: number, name: string, left: string, right: string}} props */
export function Conflicts({ conflicts, total, name, left, right }) {
  return html`<section class="card"><header><h2>${counted(total, "conflict")}</h2></header>
    <ul class="items">${conflicts.map((each) => html`<li key=${each}><span class="swatch conflict">C</span><span class="grow mono">${each}</span>
      <${Link} class="small" href=${inRepository(name, "object", { ref: left, path: each })}><${Icon} name="file" /> source<//>
      <${Link} class="small" href=${inRepository(name, "object", { ref: right, path: each })}><${Icon} name="file" /> destination<//></li>`)}</ul>
    ${total > conflicts.length && html`<p class="pad soft small">And ${counted(total - conflicts.length, "more path")}.</p>`}</section>`;
}
