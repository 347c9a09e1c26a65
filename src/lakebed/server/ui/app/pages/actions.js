// Runs of actions, and the output of their hooks.

import { html, useEffect, useState } from "../vendor/preact-htm.js";
import { get, path } from "../api.js";
import { Badge, Empty, Facts, Filter, Heading, Id, Loading, More, Shown, Time } from "../components.js";
import { Icon } from "../icons.js";
import { Link, inRepository } from "../router.js";
import { hasFeature, useList, useLoad } from "../state.js";

const AGAIN_AFTER = 1500;
/** @type {Record<string, string>} */
const TONES = { running: "warn", completed: "good", failed: "bad" };

/** @param {{of: any}} props */
function Status({ of }) {
  return of.skipped || of.skipped_by ? html`<${Badge}>skipped<//>` : html`<${Badge} tone=${TONES[of.status]}>${of.status}<//>`;
}

/** Poll while an action runs, and once after its end. @param {boolean} isRunning @param {() => void} look */
function useWatch(isRunning, look) {
  useEffect(() => {
    if (!isRunning) return undefined;
    const timer = setInterval(look, AGAIN_AFTER);
    return () => {
      clearInterval(timer);
      look();
    };
  }, [isRunning]);
}

/** @param {string} moment */
const seconds = (moment) => Date.parse(moment) / 1000;

/** @param {{name: string}} props */
export function Actions({ name }) {
  const [branch, setBranch] = useState("");
  const list = useList(path`/repositories/${name}/actions/runs`, { branch, running: true });
  useWatch(list.items.some((each) => each.status === "running"), list.reload);
  if (!hasFeature("actions")) return html`<${Empty} icon="actions" title="Actions are disabled on this server"><p>The setting <code>hooks.enabled</code> is off. Files below <code>_lakefs_actions/</code> are ignored.</p><//>`;
  return html`<${Heading} title="Actions" note=${html`Hooks defined below <code>_lakefs_actions/</code>, run before and after commits, merges and other changes.`}><${Filter} label="Filter by branch" value=${branch} onInput=${setBranch} /><//>
    <section class="card"><${Shown} of=${list}>${() => list.items.length === 0
      ? html`<${Empty} icon="actions" title=${branch ? `No runs for ${branch}` : "No runs yet"}><p>Put a file like <code>_lakefs_actions/check.yaml</code> on a branch: its hooks run at the next commit or merge.</p><//>`
      : html`<ul class="items">${list.items.map((each) => html`<li key=${each.run_id}><${Status} of=${each} /><div class="grow"><${Link} href=${inRepository(name, `actions/${each.run_id}`)}><strong>${each.event_type}</strong><//> <span class="soft">on</span> <code>${each.branch || "–"}</code></div>
          ${each.commit_id && html`<span class="wide-only"><${Id} id=${each.commit_id} what="commit id" /></span>`}<span class="soft small"><${Time} at=${seconds(each.start_time)} /></span></li>`)}</ul><${More} of=${list} what="older runs" />`}<//></section>`;
}

/** @param {{name: string, parts: Record<string, string>}} props */
export function Run({ name, parts }) {
  const base = path`/repositories/${name}/actions/runs/${parts.run}`;
  const run = useLoad((signal) => get(base, { running: true }, signal), base);
  const hooks = useLoad((signal) => get(`${base}/hooks`, { amount: 1000, running: true }, signal), base);
  const isRunning = run.data?.status === "running";
  useWatch(isRunning, () => {
    run.reload();
    hooks.reload();
  });
  return html`<${Shown} of=${run}>${(/** @type {any} */ found) => html`<${Heading} title=${html`${found.event_type} on ${found.branch}`} note=${html`<${Status} of=${found} /> started <${Time} at=${seconds(found.start_time)} />`} />
    <div class="split"><div class="stack"><${Shown} of=${hooks}>${(/** @type {any} */ page) => page.results.length === 0 ? html`<section class="card"><${Empty} icon="actions" title=${isRunning ? "No hook started yet" : found.skipped_by ? "No hook ran" : "No hooks"} /></section>` : page.results.map((/** @type {any} */ hook) => html`<${Hook} key=${hook.hook_run_id} base=${base} hook=${hook} />`)}<//></div>
      <aside class="card pad" aria-label="About this run"><${Facts} of=${{
        Run: html`<${Id} id=${parts.run} what="run id" />`,
        Commit: found.commit_id && html`<${Link} href=${inRepository(name, `commits/${found.commit_id}`)}><code>${found.commit_id.slice(0, 10)}</code><//>`,
        "Skipped by": found.skipped_by,
        Took: found.end_time && `${Math.max(0, seconds(found.end_time) - seconds(found.start_time)).toFixed(1)} s`,
      }} /></aside></div>`}<//>`;
}

/** @param {{base: string, hook: any}} props */
function Hook({ base, hook }) {
  const [open, setOpen] = useState(hook.status !== "completed");
  const isRunning = hook.status === "running";
  const output = useLoad((signal) => (open ? get(`${base}/hooks/${encodeURIComponent(hook.hook_run_id)}/output`, {}, signal) : Promise.resolve("")), `${hook.hook_run_id} ${open}`);
  useWatch(isRunning && open, output.reload);
  return html`<section class="card"><header><div class="row"><${Status} of=${hook} /><h2>${hook.action} / ${hook.hook_id}</h2></div><button class="quiet" aria-expanded=${open} onClick=${() => setOpen(!open)}><${Icon} name="code" />${open ? "Hide" : "Show"}<span class="wide-only">output</span></button></header>
    ${open && (output.data === undefined && !output.error ? html`<${Loading} rows=${2} />` : html`<div class="preview" tabindex="0"><pre>${output.error ? output.error.message : output.data || (isRunning ? "No output yet." : "No output.")}</pre></div>`)}</section>`;
}
