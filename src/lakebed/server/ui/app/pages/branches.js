// The branches of a repository.

import { html, useState } from "../vendor/preact-htm.js";
import { path, post, remove } from "../api.js";
import { Badge, Button, Empty, Field, Filter, Form, Heading, Id, Menu, More, Shown } from "../components.js";
import { Icon } from "../icons.js";
import { RefPicker } from "../refs.js";
import { Link, inRepository } from "../router.js";
import { covers, notify, useAction, useList, useRules } from "../state.js";

/** @param {{name: string, repository: any}} props */
export function Branches({ name, repository }) {
  const [text, setText] = useState("");
  const [dialog, setDialog] = useState(/** @type {any} */ (null));
  const list = useList(path`/repositories/${name}/branches`, { prefix: text });
  const rules = useRules(name);
  const main = repository.data?.default_branch ?? "";
  const why = repository.data?.read_only ? "This repository is read-only" : "";
  const done = () => {
    setDialog(null);
    list.reload();
  };
  return html`<${Heading} title="Branches"><${Filter} label="Search by prefix" value=${text} onInput=${setText} />
      <${Button} kind="primary" icon="plus" why=${why} onClick=${() => setDialog({ kind: "create" })}>Create branch<//><//>
    <section class="card"><${Shown} of=${list}>${() => list.items.length === 0 ? html`<${Empty} icon="branch" title=${`No match for “${text}”`} />` : html`<ul class="items">${list.items.map((each) => {
      const rule = (rules.data ?? []).find((/** @type {any} */ found) => covers(found.pattern, each.id));
      return html`<li key=${each.id}><span class="soft"><${Icon} name="branch" /></span><div class="grow row"><${Link} href=${inRepository(name, "objects", { ref: each.id })}><strong>${each.id}</strong><//>
          ${each.id === main && html`<${Badge} tone="accent">default<//>`}${rule && html`<${Badge}><${Icon} name="lock" />protected${rule.strict ? ", merges only" : ""}<//>`}</div>
        ${each.id !== main && html`<${Link} class="button wide-only" href=${inRepository(name, "compare", { ref: main, compare: each.id })}><${Icon} name="compare" />Compare<//>`}
        <span class="wide-only"><${Id} id=${each.commit_id} what="commit id" href=${(/** @type {string} */ text_) => html`<${Link} href=${inRepository(name, `commits/${each.commit_id}`)}><code>${text_}</code><//>`} /></span>
        <${Menu} kind="bare" title=${`Actions for ${each.id}`} label=${html`<${Icon} name="more" />`}>${(/** @type {() => void} */ close) => html`
          <${Link} href=${inRepository(name, "changes", { ref: each.id })}><${Icon} name="changes" />Uncommitted changes<//>
          <${Link} href=${inRepository(name, "commits", { ref: each.id })}><${Icon} name="commit" />Commits<//>
          <${Link} href=${inRepository(name, "compare", { ref: main, compare: each.id })}><${Icon} name="compare" />Compare with ${main}<//>
          <button disabled=${Boolean(why)} onClick=${() => { close(); setDialog({ kind: "create", source: each.id }); }}><${Icon} name="branch" />Branch from here</button>
          ${!rule && html`<button onClick=${() => { close(); setDialog({ kind: "protect", branch: each.id }); }}><${Icon} name="lock" />Protect</button>`}
          ${each.id === main ? html`<p>The default branch cannot be deleted.</p>` : rule ? html`<p>A protected branch cannot be deleted.</p>` : html`<button class="danger" disabled=${Boolean(why)} onClick=${() => { close(); setDialog({ kind: "delete", branch: each.id }); }}><${Icon} name="garbage" />Delete</button>`}`}<//></li>`;
    })}</ul><${More} of=${list} what="more branches" />`}<//></section>
    ${dialog?.kind === "create" && html`<${Creation} name=${name} source=${dialog.source ?? main} onClose=${() => setDialog(null)} onDone=${done} />`}
    ${dialog?.kind === "delete" && html`<${Deletion} name=${name} branch=${dialog.branch} onClose=${() => setDialog(null)} onDone=${done} />`}
    ${dialog?.kind === "protect" && html`<${Protection} name=${name} branch=${dialog.branch} onClose=${() => setDialog(null)} onDone=${() => { setDialog(null); rules.reload(); }} />`}`;
}

/** @param {{name: string, source: string, onClose: () => void, onDone: () => void}} props */
function Creation({ name, source, onClose, onDone }) {
  const [text, setText] = useState("");
  const [from, setFrom] = useState(source);
  const action = useAction();
  const submit = async () => {
    if (!(await action.run(() => post(path`/repositories/${name}/branches`, { name: text, source: from })))) return;
    notify(`Created branch ${text}`);
    onDone();
  };
  return html`<${Form} title="Create a branch" label="Create" action=${action} onClose=${onClose} onSubmit=${submit} why=${text ? "" : "Enter a name"}>
    <${Field} label="Name" value=${text} onInput=${setText} placeholder="experiment" data-focus />
    <div class="field"><span class="label">From</span><${RefPicker} name=${name} value=${from} label="From" onPick=${setFrom} /></div>
    <p class="hint">Starts at the commit of this ref. No objects are copied.</p><//>`;
}

/** @param {{name: string, branch: string, onClose: () => void, onDone: () => void}} props */
function Deletion({ name, branch, onClose, onDone }) {
  const action = useAction();
  const submit = async () => (await action.run(() => remove(path`/repositories/${name}/branches/${branch}`))) && onDone();
  return html`<${Form} title="Delete a branch" label="Delete" kind="danger" action=${action} onClose=${onClose} onSubmit=${submit}>
    <p>This permanently deletes the branch <strong>${branch}</strong> and its uncommitted changes, but not its commits.</p><//>`;
}

/** @param {{name: string, branch: string, onClose: () => void, onDone: () => void}} props */
function Protection({ name, branch, onClose, onDone }) {
  const action = useAction();
  const submit = async () => (await action.run(() => post(path`/repositories/${name}/branch_protection`, { pattern: branch }))) && onDone();
  return html`<${Form} title="Protect a branch" label="Protect" action=${action} onClose=${onClose} onSubmit=${submit}>
    <p>Only merges can change <strong>${branch}</strong>: uploads, deletions and direct commits are refused. Rules for several branches are in the settings.</p><//>`;
}
