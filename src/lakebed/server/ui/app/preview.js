// Previews of objects: rows, text, or an image.

import { html, useState } from "./vendor/preact-htm.js";
import { get, path, url } from "./api.js";
import { Badge, Empty, ErrorBox, Loading } from "./components.js";
import { count, counted, size } from "./format.js";
import { useLoad } from "./state.js";

const ROWS = 50;

/** @param {{name: string, of: string, path_: string, plain?: boolean}} props */
export function Preview({ name, of, path_, plain }) {
  const [offset, setOffset] = useState(0);
  const found = useLoad(
    (signal) => get(path`/repositories/${name}/refs/${of}/objects/preview`, { path: path_, offset, limit: ROWS }, signal),
    `${name} ${of} ${path_} ${offset}`,
  );
  if (found.error) return html`<div class="pad"><${ErrorBox} error=${found.error} retry=${found.reload} /></div>`;
  if (!found.data) return html`<${Loading} rows=${8} />`;
  const data = found.data;
  if (data.kind === "table") return html`<${Rows} of=${data} onOffset=${setOffset} />`;
  if (data.kind === "image")
    return html`<div class="preview"><img alt=${path_} src=${url(path`/repositories/${name}/refs/${of}/objects`, { path: path_ })} /></div>`;
  if (data.kind === "markdown") return html`<div class=${plain ? "" : "preview"}><div class="prose"><${Tree} nodes=${data.tree} /></div></div>`;
  if (data.kind === "notebook") return html`<div class="preview"><${Notebook} cells=${data.cells} /></div>`;
  if (data.kind === "text") return html`<div class="preview" tabindex="0"><pre>${data.text}</pre></div>${data.truncated && html`<p class="pad soft small">Only the first ${size(data.text.length)} are shown.</p>`}`;
  return html`<${Empty} icon="file" title="No preview">${html`<p>${data.reason}</p><a class="button" download href=${url(path`/repositories/${name}/refs/${of}/objects`, { path: path_ })}>Download</a>`}<//>`;
}

/** Whether an Arrow type is numeric. @param {string} type */
export const isNumber = (type) => /^(u?int|float|half|double|decimal)/.test(type);

/** @param {{of: any, onOffset: (offset: number) => void}} props */
function Rows({ of, onOffset }) {
  const last = of.offset + of.rows.length;
  const side = of.columns.map((/** @type {any} */ column) => (isNumber(column.type) ? "number" : ""));
  return html`<header><div class="row"><${Badge} tone="accent">${of.format}<//>
      <span class="grow soft small">${of.row_count !== null ? counted(of.row_count, "row") : "row count unknown"} · ${counted(of.columns.length, "column")}${of.hidden_columns ? ` of ${of.columns.length + of.hidden_columns}` : ""}${Object.entries(of.layout).map(([key, value]) => ` · ${key} ${value}`)}</span></div>
    <div class="row"><span class="soft small">${of.rows.length ? `${count(of.offset + 1)}–${count(last)}` : "no rows"}</span>
      <button disabled=${of.offset === 0} onClick=${() => onOffset(Math.max(0, of.offset - ROWS))}>Previous</button>
      <button disabled=${!of.has_more} onClick=${() => onOffset(last)}>Next</button></div></header>
    <div class="preview" tabindex="0" role="region" aria-label="Rows"><table><thead><tr>${of.columns.map(
      (/** @type {any} */ column, /** @type {number} */ at) => html`<th key=${column.name} class=${side[at]}><strong>${column.name}</strong><small>${column.type}</small><${Statistics} of=${column} /></th>`,
    )}</tr></thead><tbody>${of.rows.map((/** @type {any[]} */ row, /** @type {number} */ at) => html`<tr key=${at}>${row.map((value, column) => value === null ? html`<td key=${column} class=${`null ${side[column]}`}>null</td>` : html`<td key=${column} class=${side[column]} title=${value.length > 30 ? value : undefined}>${value}</td>`)}</tr>`)}</tbody></table></div>
    ${of.note && html`<p class="pad soft small">${of.note}</p>`}`;
}

/** @param {{of: any}} props */
function Statistics({ of }) {
  const bars = of.histogram;
  const facts = [];
  if (of.minimum !== null && of.minimum !== undefined) facts.push(`${of.minimum} … ${of.maximum}`);
  else if (bars?.of === "file") facts.push(`${bars.minimum} … ${bars.maximum}`);
  if (of.nulls) facts.push(`${counted(of.nulls, "null")}`);
  const range = bars?.of === "rows" ? `these rows: ${bars.minimum} … ${bars.maximum}` : "";
  const shown = facts.length > 0 ? `${range ? "file: " : ""}${facts.join(", ")}` : "";
  return html`${bars && html`<${Histogram} of=${bars} />`}${[range, shown].map((text) => text && html`<small key=${text} title=${text}>${text}</small>`)}`;
}

/** @param {{of: any}} props */
function Histogram({ of }) {
  const most = Math.max(...of.counts, 1);
  const width = 100 / of.counts.length;
  return html`<svg class="bars" viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label=${`Histogram of ${of.of === "file" ? "the file" : "these rows"}, from ${of.minimum} to ${of.maximum}`}>${of.counts.map(
    (/** @type {number} */ value, /** @type {number} */ at) => html`<rect key=${at} x=${at * width} width=${width - 1} y=${24 - (24 * value) / most} height=${(24 * value) / most} />`,
  )}</svg>`;
}

const TAGS = new Set(["p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "pre", "code", "em", "strong", "s", "blockquote", "hr", "br", "table", "thead", "tbody", "tr", "th", "td", "a"]);

/**
 * Markdown parsed by the server: a tree of a few tags, never markup.
 * @param {{nodes: any[]}} props
 * @returns {any}
 */
function Tree({ nodes }) {
  return nodes.map((node, at) => {
    if (typeof node === "string") return node;
    if (!TAGS.has(node.tag)) return null;
    const attributes = node.href ? { href: node.href, rel: "noopener noreferrer nofollow", target: "_blank" } : {};
    return html`<${node.tag} key=${at} ...${attributes}>${node.children && html`<${Tree} nodes=${node.children} />`}<//>`;
  });
}

/** @param {{cells: any[]}} props */
function Notebook({ cells }) {
  return html`<div class="prose">${cells.map((cell, at) => cell.kind === "markdown" ? html`<${Tree} key=${at} nodes=${cell.tree} />` : html`<div key=${at} class="stack"><pre><code>${cell.text}</code></pre>${cell.output && html`<pre>${cell.output}</pre>`}</div>`)}</div>`;
}
