// The settings of a repository.

import { html, useState } from "../vendor/preact-htm.js";
import { get, path, post, put, remove } from "../api.js";
import { Badge, Button, Check, Copy, ErrorBox, Facts, Field, Form, Heading, Pairs, Shown, Time, asRecord } from "../components.js";
import { Icon } from "../icons.js";
import { go } from "../router.js";
import { notify, useAction, useLoad, useMissing } from "../state.js";

/** @param {{name: string, repository: any}} props */
export function Settings({ name, repository }) {
  const [deleting, setDeleting] = useState(false);
  const missing = useMissing({ rules: ["branches:SetBranchProtectionRules", `repository/${name}`], hooks: ["ci:SetHooksSettings", `repository/${name}`], metadata: ["fs:UpdateRepository", `repository/${name}`], remove: ["fs:DeleteRepository", `repository/${name}`] });
  return html`<${Heading} title="Settings" />
    <section class="card"><header><h2>General</h2></header><div class="pad"><${Shown} of=${repository} rows=${3}>${(/** @type {any} */ found) => html`<${Facts} across of=${{
      Name: found.id,
      "Storage namespace": html`<span class="row"><code>${found.storage_namespace}</code><${Copy} text=${found.storage_namespace} what="storage namespace" /></span>`,
      "Default branch": html`<code>${found.default_branch}</code>`,
      Created: html`<${Time} at=${found.creation_date} />`,
"Read-only": found.read_only ? html`<${Badge}><${Icon} name="lock" />read-only<//> <span class="soft">set at creation</span>` : "no",
    }} />`}<//></div></section>
    <${ProtectionRules} name=${name} why=${missing.rules} />
    <${Hooks} name=${name} why=${missing.hooks} />
    <${Metadata} name=${name} why=${missing.metadata} />
    <section class="card"><header><h2>Delete this repository</h2><${Button} kind="danger" icon="garbage" why=${missing.remove} onClick=${() => setDeleting(true)}>Delete<//></header><p class="pad soft">This permanently deletes all branches, tags and commits. Objects remain in the storage.</p></section>
    ${deleting && html`<${Deletion} name=${name} isReadOnly=${Boolean(repository.data?.read_only)} onClose=${() => setDeleting(false)} />`}`;
}

/** @param {{name: string, why: string}} props */
function ProtectionRules({ name, why }) {
  const where = path`/repositories/${name}/settings/branch_protection`;
  const rules = useLoad((signal) => get(where, {}, signal), name);
  const [pattern, setPattern] = useState("");
  const [strict, setStrict] = useState(false);
  const action = useAction();
  const change = async (/** @type {any[]} */ wanted) => {
    if (!(await action.run(() => put(where, wanted)))) return;
    setPattern("");
    rules.reload();
  };
  const add = (/** @type {Event} */ event) => {
    event.preventDefault();
    return change([...(rules.data ?? []), { pattern: pattern.trim(), ...(strict ? { strict: true } : {}) }]);
  };
  const isThere = (rules.data ?? []).some((/** @type {any} */ each) => each.pattern === pattern.trim());
  return html`<section class="card"><header><h2>Branch protection</h2></header><${Shown} of=${rules} rows=${2}>${(/** @type {any[]} */ found) => html`
    ${found.length === 0 ? html`<p class="pad soft">No branch is protected.</p>` : html`<ul class="items">${found.map((each) => html`<li key=${each.pattern}><${Icon} name="lock" /><code class="grow">${each.pattern}</code>${each.strict && html`<${Badge}>merges only<//>`}<${Button} kind="bare" icon="close" aria-label=${`Remove ${each.pattern}`} why=${why} disabled=${action.busy} onClick=${() => change(found.filter((other) => other !== each))} /></li>`)}</ul>`}
    <form class="pad stack" onSubmit=${add}><div class="row"><input class="grow mono" aria-label="Branch pattern" placeholder="main, or release-*" value=${pattern} onInput=${(/** @type {any} */ event) => setPattern(event.target.value)} />
      <button type="submit" title=${why || undefined} disabled=${Boolean(why) || !pattern.trim() || isThere || action.busy}>Protect</button></div>
      <${Check} label="Strict: only merges can change them" value=${strict} onInput=${setStrict} />${isThere && html`<p class="wrong small">A rule for ${pattern} already exists.</p>`}<${ErrorBox} error=${action.error} /></form>`}<//></section>`;
}

/** @param {{name: string, why: string}} props */
function Hooks({ name, why }) {
  const where = path`/repositories/${name}/settings/hooks`;
  const found = useLoad((signal) => get(where, {}, signal), name);
  const action = useAction();
  const change = async (/** @type {boolean} */ strict) => {
    if (await action.run(() => put(where, { strict }))) found.reload();
  };
  return html`<section class="card"><header><h2>Hooks</h2></header><${Shown} of=${found} rows=${1}>${(/** @type {any} */ data) => html`<div class="pad stack">
    <p class="soft">${data.strict ? "Strict: a change must also pass the hooks of the branch's current head." : "Not strict: a commit or merge runs the hooks that it contains itself. Users who can change action files can disable hooks."}</p>
    <div><button title=${why || undefined} disabled=${Boolean(why) || action.busy} onClick=${() => change(!data.strict)}>${data.strict ? "Make hooks not strict" : "Make hooks strict"}</button></div><${ErrorBox} error=${action.error} /></div>`}<//></section>`;
}

/** @param {{name: string, why: string}} props */
function Metadata({ name, why }) {
  const where = path`/repositories/${name}/metadata`;
  const found = useLoad((signal) => get(where, {}, signal), name);
  const [pairs, setPairs] = useState(/** @type {[string, string][] | null} */ (null));
  const action = useAction();
  const shown = pairs ?? /** @type {[string, string][]} */ (Object.entries(found.data ?? {}));
  const save = async () => {
    const wanted = asRecord(shown);
    const gone = Object.keys(found.data ?? {}).filter((key) => !(key in wanted));
    const done = await action.run(async () => {
      await post(where, { metadata: wanted });
      if (gone.length) await remove(where, {}, { keys: gone });
    });
    if (!done) return;
    notify("Metadata saved");
    setPairs(null);
    found.reload();
  };
  return html`<section class="card"><header><h2>Metadata</h2><${Button} why=${why} disabled=${!pairs || action.busy} onClick=${save}>Save<//></header><div class="pad"><${Shown} of=${found} rows=${2}>${() => html`<div class="stack">${shown.length === 0 && html`<p class="soft">None yet. Document the owner or origin of the data.</p>`}<${Pairs} label="Names and values" pairs=${shown} onInput=${setPairs} /><${ErrorBox} error=${action.error} /></div>`}<//></div></section>`;
}

/** @param {{name: string, isReadOnly: boolean, onClose: () => void}} props */
function Deletion({ name, isReadOnly, onClose }) {
  const [text, setText] = useState("");
  const action = useAction();
  const submit = async () => {
    if (!(await action.run(() => remove(path`/repositories/${name}`, isReadOnly ? { force: true } : {})))) return;
    notify(`Deleted repository ${name}`);
    go("/repositories");
  };
  return html`<${Form} title="Delete this repository" label="Delete" kind="danger" action=${action} onClose=${onClose} onSubmit=${submit} why=${text === name ? "" : "Type the name"}>
    <p>This permanently deletes all branches, tags and commits of <strong>${name}</strong>.</p>
    <${Field} label=${`Type ${name} to confirm`} value=${text} onInput=${setText} /><//>`;
}
