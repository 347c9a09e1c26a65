// Garbage collection: runs, pending deletions, retention rules, unfinished uploads.

import { html, useState } from "../vendor/preact-htm.js";
import { ApiError, get, getAll, path, post, put, remove } from "../api.js";
import { Badge, Button, Code, Empty, ErrorBox, Facts, Field, Form, Heading, Loading, More, Shown, Time } from "../components.js";
import { count, counted, size } from "../format.js";
import { hasFeature, notify, useAction, useList, useLoad, useMissing } from "../state.js";

/** @type {Record<string, string>} */
const TONES = { done: "good", running: "warn", incomplete: "warn", refused: "bad", died: "bad" };

/** @param {{name: string}} props */
export function Garbage({ name }) {
  // Oldest first; retained for some weeks.
  const runs = useLoad(async () => (hasFeature("gc-runs") ? (await getAll(path`/repositories/${name}/gc/runs`)).reverse() : []), name);
  return html`<${Heading} title="Garbage" note="Deletion of unreferenced objects, and of commits past their retention." />
    <div class="columns"><${Due} name=${name} runs=${runs} /><${Retention} name=${name} /></div>
    <${Runs} runs=${runs} /><${Unfinished} name=${name} />`;
}

/** @param {number} seconds */
function asHours(seconds) {
  const hours = seconds / 3600;
  return hours >= 48 ? `${Math.round(hours / 24)} days` : hours >= 1 ? counted(Math.round(hours), "hour") : counted(Math.round(seconds / 60), "minute");
}

/** Pending deletions, as of the last run. @param {{name: string, runs: any}} props */
function Due({ name, runs }) {
  const config = useLoad((signal) => get("/config/garbage-collection", {}, signal), "");
  return html`<section class="card"><header><h2>Pending deletion</h2></header><div class="pad stack"><${Shown} of=${runs} rows=${3}>${(/** @type {any[]} */ found) => {
    const last = found.find((each) => each.summary);
    return html`${last ? html`<${Facts} across of=${dueFacts(last.summary)} /><p class="soft small">As of the run that started <${Time} at=${Date.parse(last.began) / 1000} />. Objects are deleted when a second run confirms that they are unreferenced.</p>`
        : html`<p>No run yet.</p>`}
      <p>${hasFeature("reclaim") ? "The server runs garbage collection every few minutes. To run it now:" : html`Automatic garbage collection is disabled (<code>reclaim.enabled</code>). Run it from any machine with access to the storage:`}</p>
      <${Code} text=${`lakebed gc run lakefs://${name}${last ? "" : " --dry-run"}`} />`;
  }}<//>${config.data && html`<p class="soft small">Objects younger than ${asHours(config.data.grace_period)} are never deleted.</p>`}</div></section>`;
}

/** @param {any} of */
function dueFacts(of) {
  return {
    "Unreferenced, awaiting second run": `${counted(of.waiting, "object")}${of.waiting ? `, ${size(of.waiting_bytes)}` : ""}`,
    "Deletable after": of.waiting ? html`<${Time} at=${of.next_us / 1e6} />` : "",
    "Too recent": counted(of.young, "object"),
    "In use": counted(of.committed + of.held, "object"),
  };
}

/** @param {{runs: any}} props */
function Runs({ runs }) {
  return html`<section class="card"><header><h2>Runs</h2><button onClick=${runs.reload}>Refresh</button></header><${Shown} of=${runs} rows=${3}>${(/** @type {any[]} */ found) => found.length === 0
    ? html`<${Empty} icon="garbage" title="No runs yet"><p>Reports of runs are shown here for some weeks.</p><//>`
    : html`<div class="scroll" tabindex="0"><table><thead><tr><th>Started</th><th>State</th><th class="number">Scanned</th><th class="number">Waiting</th><th class="number">Deleted</th><th class="number">Freed</th><th class="wide-only">Old commits</th></tr></thead>
      <tbody>${found.map((each) => html`<${RunRow} key=${each.run_id} run=${each} />`)}</tbody></table></div>`}<//></section>`;
}

/** @param {{run: any}} props */
function RunRow({ run }) {
  const of = run.summary;
  const figure = (/** @type {string} */ key) => (of ? count(of[key]) : "");
  return html`<tr><td class="nowrap"><${Time} at=${Date.parse(run.began) / 1000} /></td><td><${Badge} tone=${TONES[run.state]}>${run.state}<//> ${of?.dry_run && html`<${Badge}>dry run<//>`}${run.message && html`<div class="wrong small">${run.message}</div>`}${of?.failed > 0 && html`<div class="wrong small">${counted(of.failed, "object")} could not be deleted</div>`}</td>
    <td class="number">${figure("looked_at")}</td><td class="number">${figure("waiting")}</td><td class="number">${figure("deleted")}</td><td class="number">${of ? size(of.deleted_bytes) : ""}</td>
    <td class="soft wide-only">${of?.commits?.ran ? `${count(of.commits.marked)} marked, ${count(of.commits.expired)} expired` : ""}</td></tr>`;
}

/** @param {{name: string}} props */
function Retention({ name }) {
  const where = path`/repositories/${name}/settings/gc_rules`;
  const rules = useLoad((signal) => get(where, {}, signal).catch((error) => (error instanceof ApiError && error.status === 404 ? null : Promise.reject(error))), name);
  const [editing, setEditing] = useState(false);
  const missing = useMissing({ set: ["retention:SetGarbageCollectionRules", `repository/${name}`] });
  const why = hasFeature("retention") ? missing.set : "Not supported by this server: all commits are retained";
  return html`<section class="card"><header><h2>Retention of commits</h2><${Button} why=${why} onClick=${() => setEditing(true)}>Edit rules<//></header><div class="pad stack"><${Shown} of=${rules} rows=${3}>${(/** @type {any} */ found) => found
      ? html`<p>Commits are retained for <strong>${counted(found.default_retention_days, "day")}</strong>${found.branches?.length ? ", except on these branches:" : "."}</p>${found.branches?.length > 0 && html`<${Facts} across of=${Object.fromEntries(found.branches.map((/** @type {any} */ each) => [each.branch_id, counted(each.retention_days, "day")]))} />`}<p class="soft small">Tagged commits and branch heads are always retained.</p>`
      : html`<p>No rules: all commits are retained forever.</p>${why && html`<p class="soft small">${why}.</p>`}`}<//>
      ${rules.data && html`<${OldCommits} name=${name} />`}</div>
    ${editing && html`<${Rules} where=${where} rules=${rules.data} onClose=${() => setEditing(false)} onDone=${() => { setEditing(false); rules.reload(); }} />`}</section>`;
}

/** Preview of the rules. Runs on demand, as it reads all commits. @param {{name: string}} props */
function OldCommits({ name }) {
  const [found, setFound] = useState(/** @type {any} */ (null));
  const action = useAction();
  const ask = () => action.run(async () => setFound(await post(path`/repositories/${name}/gc/expire`, undefined, { dry_run: true })));
  return html`<${Button} disabled=${action.busy} onClick=${ask}>${action.busy ? "Working…" : "Preview expiry"}<//><${ErrorBox} error=${action.error} />
    ${found && (found.ran ? html`<p role="status">Of ${counted(found.commits, "commit")}, the next run would mark <strong>${count(found.marked)}</strong> and expire <strong>${count(found.expired)}</strong>; ${count(found.waiting)} are marked already.${Object.entries(found.by_branch).map(([branch, amount]) => ` ${branch || "No branch"}: ${amount}.`)}</p>` : html`<p role="status">Another process is checking the commits. Try again in a moment.</p>`)}`;
}

/** @param {{where: string, rules: any, onClose: () => void, onDone: () => void}} props */
function Rules({ where, rules, onClose, onDone }) {
  const [days, setDays] = useState(String(rules?.default_retention_days ?? 30));
  const [text, setText] = useState((rules?.branches ?? []).map((/** @type {any} */ each) => `${each.branch_id} ${each.retention_days}`).join("\n"));
  const action = useAction();
  const lines = text.split("\n").map((/** @type {string} */ line) => line.trim()).filter(Boolean);
  const wrong = lines.find((/** @type {string} */ line) => !/^\S+\s+[1-9]\d*$/.test(line));
  const submit = async () => {
    const branches = lines.map((/** @type {string} */ line) => ({ branch_id: line.split(/\s+/)[0], retention_days: Number(line.split(/\s+/)[1]) }));
    if (await action.run(() => put(where, { default_retention_days: Number(days), branches }))) {
      notify("Rules saved");
      onDone();
    }
  };
  return html`<${Form} title="Retention rules" label="Save" action=${action} onClose=${onClose} onSubmit=${submit} why=${!/^[1-9]\d*$/.test(days) ? "Enter a number of days" : wrong ? "Correct the line above" : ""}>
    <${Field} label="Retain commits for (days)" value=${days} onInput=${setDays} inputmode="numeric" />
    <${Field} label="Exceptions by branch" value=${text} onInput=${setText} multiline hint="One per line: a branch or pattern, and a number of days, as in exp-* 7." error=${wrong ? `“${wrong}” is not a branch and a number of days` : ""} />
    ${rules && html`<button type="button" class="danger" onClick=${async () => (await action.run(() => remove(where))) && onDone()}>Remove all rules</button>`}<//>`;
}

/** @param {{name: string}} props */
function Unfinished({ name }) {
  const list = useList(path`/repositories/${name}/gc/uploads`, {});
  return html`<section class="card"><header><h2>Unfinished uploads</h2></header>${list.error ? html`<div class="pad"><${ErrorBox} error=${list.error} retry=${list.reload} /></div>` : !list.data ? html`<${Loading} rows=${3} />` : list.items.length === 0
    ? html`<${Empty} icon="check" title="No unfinished uploads"><p>Open multipart uploads and issued upload addresses protect their objects from garbage collection.</p><//>`
    : html`<div class="scroll" tabindex="0"><table><thead><tr><th>Path</th><th>Branch</th><th>Kind</th><th>Started</th></tr></thead><tbody>${list.items.map((each) => html`<tr key=${each.id}><td><code>${each.path}</code></td><td>${each.branch}</td><td>${each.kind}</td><td class="soft"><${Time} at=${Date.parse(each.begun) / 1000} /></td></tr>`)}</tbody></table></div>`}
    <${More} of=${list} /></section>`;
}
