// The history of a ref.

import { html, useEffect, useMemo, useState } from "../vendor/preact-htm.js";
import { path } from "../api.js";
import { Badge, Check, Empty, ErrorBox, Filter, Heading, Id, Loading, More, Time } from "../components.js";
import { layOut } from "../graph.js";
import { RefPicker } from "../refs.js";
import { Link, go, inRepository } from "../router.js";
import { useList } from "../state.js";

const HEIGHT = 56;
const STEP = 14;
const LANES_SHOWN = 10;
const FOUND_ENOUGH = 20;
const LOOKED_AT_MAX = 5000;

/** @param {{name: string, repository: any, query: URLSearchParams}} props */
export function Commits({ name, repository, query }) {
  const ref = query.get("ref") ?? repository.data?.default_branch;
  if (!ref) return html`<${Loading} />`;
  return html`<${Log} name=${name} of=${ref} place=${query.get("path") ?? ""} />`;
}

/** @param {{name: string, of: string, place: string}} props */
function Log({ name, of: ref, place }) {
  const [text, setText] = useState("");
  const [first, setFirst] = useState(false);
  const among = place ? (place.endsWith("/") ? { prefixes: [place] } : { objects: [place] }) : {};
  const list = useList(path`/repositories/${name}/refs/${ref}/commits`, { first_parent: first, ...among });
  const wanted = text.toLowerCase();
  const commits = list.items.filter((each) => !wanted || `${each.message} ${each.committer} ${each.id}`.toLowerCase().includes(wanted));
  // A filter also loads older commits, up to a limit, until matches are found.
  const isLooking = Boolean(wanted) && commits.length < FOUND_ENOUGH && list.hasMore && list.items.length < LOOKED_AT_MAX && !list.error;
  useEffect(() => {
    if (isLooking && !list.loadingMore) list.loadMore();
  }, [isLooking, list.loadingMore]);
  return html`<${Heading} title=${place ? html`History of <code>${place}</code>` : "Commits"}>
      <${RefPicker} name=${name} value=${ref} onPick=${(/** @type {string} */ chosen) => go(inRepository(name, "commits", { ref: chosen, path: place }))} />
      <${Filter} label="Message, author or id" value=${text} onInput=${setText} />
      <${Check} label="First parents only" value=${first} onInput=${setFirst} /><//>
    <section class="card">${list.error ? html`<div class="pad"><${ErrorBox} error=${list.error} retry=${list.reload} /></div>` : !list.data ? html`<${Loading} rows=${8} />`
      : commits.length === 0 ? html`<${Empty} icon="commit" title=${isLooking ? `Searching for “${text}”…` : text ? `No commit matches “${text}”` : "No commits"}>${list.hasMore && html`<p>${isLooking ? `${list.items.length} commits searched` : `Searched the last ${list.items.length} commits. Older commits are not loaded yet.`}</p>`}<//>`
      : html`<div class="log">${commits.length === list.items.length && !place ? html`<${Graph} commits=${commits} />` : html`<span />`}
        <ol>${commits.map((each) => html`<${Row} key=${each.id} name=${name} commit=${each} />`)}</ol></div>`}
      <${More} of=${list} what="older commits" /></section>`;
}

/** @param {{name: string, commit: import("../api.js").Commit}} props */
function Row({ name, commit }) {
  return html`<li><div><${Link} href=${inRepository(name, `commits/${commit.id}`)} title=${commit.message}>${commit.message.split("\n")[0] || "(no message)"}<//>${commit.refused && html` <${Badge} tone="bad">refused<//>`}
      <p>${commit.committer || "Lakebed"} · <${Time} at=${commit.creation_date} /></p></div>
    ${commit.parents.length > 1 && html`<span class="wide-only"><${Badge} tone="accent">merge<//></span>`}
    <${Id} id=${commit.id} what="commit id" /></li>`;
}

/** @param {{commits: import("../api.js").Commit[]}} props */
function Graph({ commits }) {
  const rows = useMemo(() => layOut(commits), [commits]);
  const lanes = Math.min(LANES_SHOWN, Math.max(...rows.map((row) => row.width)));
  const x = (/** @type {number} */ lane) => 14 + Math.min(lane, LANES_SHOWN - 1) * STEP;
  const colour = (/** @type {number} */ lane) => `var(--lane-${(lane % 5) + 1})`;
  return html`<svg width=${16 + lanes * STEP} height=${rows.length * HEIGHT} aria-hidden="true">${rows.map((row, at) => {
    const [top, middle, bottom] = [at * HEIGHT, at * HEIGHT + HEIGHT / 2, (at + 1) * HEIGHT];
    return html`<g key=${commits[at].id}>${row.lines.map(({ from, to, half, colour: lane }, each) => {
      const [start, end] = half === "top" ? [top, middle] : [middle, bottom];
      const bend = (start + end) / 2;
      return html`<path key=${each} d=${`M${x(from)} ${start}C${x(from)} ${bend} ${x(to)} ${bend} ${x(to)} ${end}`} fill="none" stroke-width="2" style=${{ stroke: colour(lane) }} />`;
    })}<circle cx=${x(row.lane)} cy=${middle} r=${commits[at].parents.length > 1 ? 4 : 5} stroke-width="2" style=${{ fill: commits[at].parents.length > 1 ? "var(--card)" : colour(row.lane), stroke: colour(row.lane) }} /></g>`;
  })}</svg>`;
}
