// The tags of a repository.

import { html, useState } from "../vendor/preact-htm.js";
import { path, post, remove } from "../api.js";
import { Button, Empty, Field, Filter, Form, Heading, Id, Menu, More, Shown } from "../components.js";
import { Icon } from "../icons.js";
import { RefPicker } from "../refs.js";
import { Link, inRepository } from "../router.js";
import { notify, useAction, useList } from "../state.js";

/** @param {{name: string, repository: any}} props */
export function Tags({ name, repository }) {
  const [text, setText] = useState("");
  const [dialog, setDialog] = useState(/** @type {any} */ (null));
  const list = useList(path`/repositories/${name}/tags`, { prefix: text });
  const why = repository.data?.read_only ? "This repository is read-only" : "";
  const done = () => {
    setDialog(null);
    list.reload();
  };
  const create = html`<${Button} kind="primary" icon="plus" why=${why} onClick=${() => setDialog({ kind: "create" })}>Create tag<//>`;
  return html`<${Heading} title="Tags"><${Filter} label="Search by prefix" value=${text} onInput=${setText} />${create}<//>
    <section class="card"><${Shown} of=${list}>${() => list.items.length === 0
      ? html`<${Empty} icon="tag" title=${text ? `No match for “${text}”` : "No tags yet"}><p>A tag is a permanent name for a commit, for example a release of your data.</p>${!text && create}<//>`
      : html`<ul class="items">${list.items.map((each) => html`<li key=${each.id}><span class="soft"><${Icon} name="tag" /></span><div class="grow"><${Link} href=${inRepository(name, "objects", { ref: each.id })}><strong>${each.id}</strong><//></div>
        <${Id} id=${each.commit_id} what="commit id" href=${(/** @type {string} */ text_) => html`<${Link} href=${inRepository(name, `commits/${each.commit_id}`)}><code>${text_}</code><//>`} />
        <${Menu} kind="bare" title=${`Actions for ${each.id}`} label=${html`<${Icon} name="more" />`}>${(/** @type {() => void} */ close) => html`
          <${Link} href=${inRepository(name, "compare", { ref: each.id, compare: repository.data?.default_branch })}><${Icon} name="compare" />Changes since<//>
          <button class="danger" disabled=${Boolean(why)} onClick=${() => { close(); setDialog({ kind: "delete", tag: each.id }); }}><${Icon} name="garbage" />Delete</button>`}<//></li>`)}</ul><${More} of=${list} what="more tags" />`}<//></section>
    ${dialog?.kind === "create" && html`<${Creation} name=${name} source=${repository.data?.default_branch ?? ""} onClose=${() => setDialog(null)} onDone=${done} />`}
    ${dialog?.kind === "delete" && html`<${Deletion} name=${name} tag=${dialog.tag} onClose=${() => setDialog(null)} onDone=${done} />`}`;
}

/** @param {{name: string, source: string, onClose: () => void, onDone: () => void}} props */
function Creation({ name, source, onClose, onDone }) {
  const [text, setText] = useState("");
  const [from, setFrom] = useState(source);
  const action = useAction();
  const submit = async () => {
    if (!(await action.run(() => post(path`/repositories/${name}/tags`, { id: text, ref: from })))) return;
    notify(`Created tag ${text}`);
    onDone();
  };
  return html`<${Form} title="Create a tag" label="Create" action=${action} onClose=${onClose} onSubmit=${submit} why=${text ? "" : "Enter a name"}>
    <${Field} label="Name" value=${text} onInput=${setText} placeholder="v1" data-focus />
    <div class="field"><span class="label">At</span><${RefPicker} name=${name} value=${from} label="At" onPick=${setFrom} /></div><//>`;
}

/** @param {{name: string, tag: string, onClose: () => void, onDone: () => void}} props */
function Deletion({ name, tag, onClose, onDone }) {
  const action = useAction();
  const submit = async () => (await action.run(() => remove(path`/repositories/${name}/tags/${tag}`))) && onDone();
  return html`<${Form} title="Delete a tag" label="Delete" kind="danger" action=${action} onClose=${onClose} onSubmit=${submit}>
    <p>This permanently deletes the tag <strong>${tag}</strong>, but not its commit.</p><//>`;
}
