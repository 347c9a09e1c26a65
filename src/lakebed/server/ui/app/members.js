// Lists of users, groups and policies, and their relations.

import { html, useState } from "./vendor/preact-htm.js";
import { call, post, remove } from "./api.js";
import { Button, Empty, Field, Filter, Form, Heading, More, Shown, Time } from "./components.js";
import { Icon } from "./icons.js";
import { Link, go } from "./router.js";
import { notifyError, useAction, useList, useMissing } from "./state.js";

/**
 * A page with all users, groups or policies.
 * @param {{title: string, what: string, note: string, icon: string, where: string, page: string, onCreate: () => void, version: number}} props
 */
export function Entities({ title, what, note, icon, where, page, onCreate, version }) {
  const [text, setText] = useState("");
  const list = useList(where, { prefix: text });
  const create = html`<${Button} kind="primary" icon="plus" onClick=${onCreate}>Create ${what}<//>`;
  return html`<${Heading} title=${title} note=${note}><${Filter} label="Search by prefix" value=${text} onInput=${setText} />${create}<//>
    <section class="card" key=${version}><${Shown} of=${list}>${() => list.items.length === 0 ? html`<${Empty} icon=${icon} title=${text ? `No match for “${text}”` : `No ${title.toLowerCase()} yet`} />`
      : html`<ul class="items">${list.items.map((each) => html`<li key=${each.id}><span class="soft"><${Icon} name=${icon} /></span><div class="grow"><${Link} href=${`${page}/${encodeURIComponent(each.id)}`}><strong>${each.id}</strong><//>${each.description && html`<div class="soft small">${each.description}</div>`}</div>${each.creation_date && html`<span class="soft small wide-only">created <${Time} at=${each.creation_date} /></span>`}</li>`)}</ul><${More} of=${list} />`}<//></section>`;
}

/**
 * Related items of a user or a group, with buttons to add and remove.
 * @param {{title: string, icon: string, where: string, all: string, change: (id: string) => string, page: string, empty: string, onChange?: () => void}} props
 *   `where` lists them, `all` lists candidates, `change` is the path for PUT and DELETE.
 */
export function Belonging({ title, icon, where, all, change, page, empty, onChange }) {
  const list = useList(where, {});
  const again = () => {
    list.reload();
    onChange?.();
  };
  const [adding, setAdding] = useState(false);
  const drop = async (/** @type {string} */ id) => {
    try {
      await remove(change(id));
      again();
    } catch (error) {
      notifyError(error);
    }
  };
  return html`<section class="card" aria-label=${title}><header><h2>${title}</h2><${Button} icon="plus" onClick=${() => setAdding(true)}>Add<//></header><${Shown} of=${list} rows=${2}>${() => list.items.length === 0 ? html`<p class="pad soft">${empty}</p>`
      : html`<ul class="items">${list.items.map((each) => html`<li key=${each.id}><span class="soft"><${Icon} name=${icon} /></span><span class="grow"><${Link} href=${`${page}/${encodeURIComponent(each.id)}`}>${each.id}<//></span><${Button} kind="bare" icon="close" aria-label=${`Remove ${each.id}`} onClick=${() => drop(each.id)} /></li>`)}</ul><${More} of=${list} />`}<//></section>
    ${adding && html`<${Adding} title=${title} all=${all} change=${change} there=${list.items.map((each) => each.id)} onClose=${() => setAdding(false)} onDone=${() => { setAdding(false); again(); }} />`}`;
}

/** @param {{title: string, all: string, change: (id: string) => string, there: string[], onClose: () => void, onDone: () => void}} props */
function Adding({ title, all, change, there, onClose, onDone }) {
  const list = useList(all, {}, 1000);
  const [chosen, setChosen] = useState("");
  const action = useAction();
  const free = list.items.filter((each) => !there.includes(each.id));
  const submit = async () => (await action.run(() => call("PUT", change(chosen)))) && onDone();
  return html`<${Form} title=${`Add to ${title.toLowerCase()}`} label="Add" action=${action} onClose=${onClose} onSubmit=${submit} why=${chosen ? "" : free.length ? "Choose an item" : "Nothing left to add"}>
    <${Field} label="Item" value=${chosen} onInput=${setChosen} options=${[["", "choose…"], ...free.map((each) => [each.id, each.id])]} /><//>`;
}

/** @param {{what: string, where: string, page: string, withDescription?: boolean, onClose: () => void}} props */
export function CreateForm({ what, where, page, withDescription, onClose }) {
  const [id, setId] = useState("");
  const [text, setText] = useState("");
  const action = useAction();
  const submit = async () => {
    if (await action.run(() => post(where, withDescription && text ? { id, description: text } : { id }))) go(`${page}/${encodeURIComponent(id)}`);
  };
  return html`<${Form} title=${`Create a ${what}`} label="Create" action=${action} onClose=${onClose} onSubmit=${submit} why=${id.trim() ? "" : "Enter a name"}>
    <${Field} label="Name" value=${id} onInput=${setId} />${withDescription && html`<${Field} label="Description" value=${text} onInput=${setText} />`}<//>`;
}

/** @param {{what: string, id: string, where: string, page: string, text: string}} props */
export function DeleteButton({ what, id, where, page, text }) {
  const [asking, setAsking] = useState(false);
  const action = useAction();
  const missing = useMissing({ remove: [`auth:Delete${what.charAt(0).toUpperCase()}${what.slice(1)}`, `${what}/${id}`] });
  const submit = async () => (await action.run(() => remove(where))) && go(page);
  return html`<${Button} kind="danger" icon="garbage" why=${missing.remove} onClick=${() => setAsking(true)}>Delete<//>
    ${asking && html`<${Form} title=${`Delete ${what} ${id}`} label="Delete" kind="danger" action=${action} onClose=${() => setAsking(false)} onSubmit=${submit}><p>${text}</p><//>`}`;
}

