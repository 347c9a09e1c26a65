// What garbage collection keeps and waits for.

import { html, useState } from "../vendor/preact-htm.js";
import { ApiError, get, path, put, remove } from "../api.js";
import { Button, Code, Empty, ErrorBox, Field, Form, Heading, Loading, More, Shown, Time } from "../components.js";
import { hasFeature, notify, useAction, useList, useLoad } from "../state.js";

/** @param {{name: string}} props */
export function Garbage({ name }) {
  const config = useLoad((signal) => get("/config/garbage-collection", {}, signal), "");
  return html`<${Heading} title="Garbage" note="Objects that no commit, branch or upload names any more." />
    <div class="columns"><section class="card"><header><h2>Uncommitted objects</h2></header><div class="pad stack">
        <p>A collection deletes objects that were found unused twice. ${config.data && html`Younger ones than <strong>${asHours(config.data.grace_period)}</strong> are always left alone.`}</p>
        <p class="soft">It runs as a job beside the server, with its own figures and report:</p>
        <${Code} text=${`lakebed gc run lakefs://${name} --dry-run`} /></div></section>
      <${Retention} name=${name} /></div>
    <${Unfinished} name=${name} />`;
}

/** @param {number} seconds */
function asHours(seconds) {
  const hours = seconds / 3600;
  return hours >= 48 ? `${Math.round(hours / 24)} days` : hours >= 1 ? `${Math.round(hours)} hours` : `${Math.round(seconds / 60)} minutes`;
}

/** @param {{name: string}} props */
function Retention({ name }) {
  const where = path`/repositories/${name}/settings/gc_rules`;
  const rules = useLoad((signal) => get(where, {}, signal).catch((error) => (error instanceof ApiError && error.status === 404 ? null : Promise.reject(error))), name);
  const [editing, setEditing] = useState(false);
  const why = hasFeature("retention") ? "" : "This server keeps all commits: rules cannot be set";
  return html`<section class="card"><header><h2>Retention of commits</h2><${Button} why=${why} onClick=${() => setEditing(true)}>Edit rules<//></header><div class="pad stack"><${Shown} of=${rules} rows=${3}>${(/** @type {any} */ found) => found
      ? html`<p>Commits are kept for <strong>${found.default_retention_days} days</strong>${found.branches?.length ? ", and:" : "."}</p><ul class="items">${(found.branches ?? []).map((/** @type {any} */ each) => html`<li key=${each.branch_id}><code class="grow">${each.branch_id}</code>${each.retention_days} days</li>`)}</ul>`
      : html`<p>No rules are set: all commits are kept for ever.</p>${why && html`<p class="soft small">${why}.</p>`}`}<//></div>
    ${editing && html`<${Rules} where=${where} rules=${rules.data} onClose=${() => setEditing(false)} onDone=${() => { setEditing(false); rules.reload(); }} />`}</section>`;
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
  return html`<${Form} title="Retention rules" label="Save" action=${action} onClose=${onClose} onSubmit=${submit} why=${!/^[1-9]\d*$/.test(days) ? "Give a number of days" : wrong ? "A line below is not right" : ""}>
    <${Field} label="Keep commits for (days)" value=${days} onInput=${setDays} inputmode="numeric" />
    <${Field} label="Other numbers for some branches" value=${text} onInput=${setText} multiline hint="One line each: a branch and a number of days." error=${wrong ? `“${wrong}” is not a branch and a number of days` : ""} />
    ${rules && html`<button type="button" class="danger" onClick=${async () => (await action.run(() => remove(where))) && onDone()}>Remove all rules</button>`}<//>`;
}

/** @param {{name: string}} props */
function Unfinished({ name }) {
  const list = useList(path`/repositories/${name}/gc/uploads`, {});
  return html`<section class="card"><header><h2>Unfinished uploads</h2></header>${list.error ? html`<div class="pad"><${ErrorBox} error=${list.error} retry=${list.reload} /></div>` : !list.data ? html`<${Loading} rows=${3} />` : list.items.length === 0
    ? html`<${Empty} icon="check" title="No unfinished uploads"><p>Uploads in parts, and addresses that were given out and not used, keep bytes from being collected.</p><//>`
    : html`<div class="scroll"><table><thead><tr><th>Path</th><th>Branch</th><th>Kind</th><th>Begun</th></tr></thead><tbody>${list.items.map((each) => html`<tr key=${each.id}><td><code>${each.path}</code></td><td>${each.branch}</td><td>${each.kind}</td><td class="soft"><${Time} at=${Date.parse(each.begun) / 1000} /></td></tr>`)}</tbody></table></div>`}
    <${More} of=${list} /></section>`;
}
