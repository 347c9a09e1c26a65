// Access keys of users.

import { html, useState } from "../vendor/preact-htm.js";
import { get, path, post, remove } from "../api.js";
import { Button, Code, Dialog, Empty, Form, Heading, More, Shown, Time } from "../components.js";
import { Icon } from "../icons.js";
import { notify, notifyError, useAction, useList, useLoad, useMissing } from "../state.js";

export function Credentials() {
  const user = useLoad((signal) => get("/user", {}, signal), "");
  return html`<${Heading} title="My keys" note="For the web UI, the command line, the API and S3 clients." />
    <${Shown} of=${user} rows=${3}>${(/** @type {any} */ found) => html`<${Keys} user=${found.user.id} />`}<//>`;
}

/** @param {{user: string}} props */
export function Keys({ user }) {
  const where = path`/auth/users/${user}/credentials`;
  const list = useList(where, {});
  const [made, setMade] = useState(/** @type {any} */ (null));
  const [removing, setRemoving] = useState("");
  const missing = useMissing({ create: ["auth:CreateCredentials", `user/${user}`], remove: ["auth:DeleteCredentials", `user/${user}`] });
  const create = async () => {
    try {
      setMade(await post(where));
    } catch (error) {
      notifyError(error);
    }
  };
  const button = html`<${Button} icon="plus" why=${missing.create} onClick=${create}>Create keys<//>`;
  return html`<section class="card"><header><h2>Keys of ${user}</h2>${button}</header><${Shown} of=${list} rows=${3}>${() => list.items.length === 0
      ? html`<${Empty} icon="key" title="No keys"><p>Without keys, ${user} cannot log in.</p><//>`
      : html`<ul class="items">${list.items.map((each) => html`<li key=${each.access_key_id}><span class="soft"><${Icon} name="key" /></span><code class="grow">${each.access_key_id}</code><span class="soft small wide-only">created <${Time} at=${each.creation_date} /></span>
        <${Button} kind="bare" icon="garbage" why=${missing.remove} aria-label=${`Delete ${each.access_key_id}`} onClick=${() => setRemoving(each.access_key_id)} /></li>`)}</ul><${More} of=${list} />`}<//></section>
    ${made && html`<${Dialog} title="New keys" onClose=${() => { setMade(null); list.reload(); }}><p>The secret is shown only once.</p><${Code} what="keys" text=${`access_key_id: ${made.access_key_id}\nsecret_access_key: ${made.secret_access_key}`} /><//>`}
    ${removing && html`<${Removal} where=${`${where}/${encodeURIComponent(removing)}`} id=${removing} onClose=${() => setRemoving("")} onDone=${() => { setRemoving(""); list.reload(); }} />`}`;
}

/** @param {{where: string, id: string, onClose: () => void, onDone: () => void}} props */
function Removal({ where, id, onClose, onDone }) {
  const action = useAction();
  const submit = async () => {
    if (!(await action.run(() => remove(where)))) return;
    notify("Keys deleted");
    onDone();
  };
  return html`<${Form} title="Delete keys" label="Delete" kind="danger" action=${action} onClose=${onClose} onSubmit=${submit}><p>Programs and logins with <code>${id}</code> stop working within seconds.</p><//>`;
}
