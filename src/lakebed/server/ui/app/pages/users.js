// Users, and a single user.

import { html, useState } from "../vendor/preact-htm.js";
import { get, path } from "../api.js";
import { Badge, Heading, More, Shown, Time } from "../components.js";
import { Belonging, CreateForm, DeleteButton, Entities } from "../members.js";
import { Link } from "../router.js";
import { useList, useLoad } from "../state.js";
import { Keys } from "./credentials.js";

export function Users() {
  const [creating, setCreating] = useState(false);
  return html`<${Entities} title="Users" what="user" icon="user" note="One account per person or service." where="/auth/users" page="/auth/users" version=${0} onCreate=${() => setCreating(true)} />
    ${creating && html`<${CreateForm} what="user" where="/auth/users" page="/auth/users" onClose=${() => setCreating(false)} />`}`;
}

/** @param {{parts: Record<string, string>}} props */
export function UserPage({ parts }) {
  const user = parts.user;
  const where = path`/auth/users/${user}`;
  const found = useLoad((signal) => get(where, {}, signal), user);
  const [changes, setChanges] = useState(0);
  const onChange = () => setChanges((value) => value + 1);
  return html`<${Shown} of=${found}>${(/** @type {any} */ data) => html`<${Heading} title=${user} note=${html`User, created <${Time} at=${data.creation_date} />`}><${DeleteButton} what="user" id=${user} where=${where} page="/auth/users" text="The user's keys and logins stop working. Commits are not affected." /><//>
    <${Keys} user=${user} />
    <div class="columns"><${Belonging} title="Groups" icon="group" where=${`${where}/groups`} all="/auth/groups" change=${(/** @type {string} */ group) => path`/auth/groups/${group}/members/${user}`} page="/auth/groups" empty="No groups." onChange=${onChange} />
      <${Belonging} title="Policies" icon="policy" where=${`${where}/policies`} all="/auth/policies" change=${(/** @type {string} */ policy) => `${where}${path`/policies/${policy}`}`} page="/auth/policies" empty="No policies attached. Policies of groups apply too." onChange=${onChange} /></div>
    <${InEffect} key=${changes} where=${`${where}/policies`} />`}<//>`;
}

/** The effective policies of a user: attached, or of a group. @param {{where: string}} props */
function InEffect({ where }) {
  const list = useList(where, { effective: true });
  return html`<section class="card" aria-label="Effective policies"><header><h2>Effective policies</h2><span class="soft small">attached and from groups; deny overrides allow</span></header><${Shown} of=${list} rows=${2}>${() => list.items.length === 0
    ? html`<p class="pad soft">None: the user can only log in.</p>`
    : html`<div class="scroll" tabindex="0"><table><thead><tr><th>Policy</th><th>Effect</th><th>Actions</th><th>Resource</th></tr></thead><tbody>${list.items.flatMap((policy) => policy.statement.map((/** @type {any} */ each, /** @type {number} */ at) => html`<tr key=${`${policy.id} ${at}`}>
      <td>${at === 0 && html`<${Link} href=${`/auth/policies/${encodeURIComponent(policy.id)}`}>${policy.id}<//>`}</td><td><${Badge} tone=${each.effect === "deny" ? "bad" : "good"}>${each.effect}<//></td><td class="mono">${each.action.join(" ")}</td><td class="mono">${each.resource}${each.condition && " (conditional)"}</td></tr>`))}</tbody></table></div><${More} of=${list} />`}<//></section>`;
}
