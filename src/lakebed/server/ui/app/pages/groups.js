// Groups, and a single group.

import { html, useState } from "../vendor/preact-htm.js";
import { get, path } from "../api.js";
import { Heading, Shown, Time } from "../components.js";
import { Belonging, CreateForm, DeleteButton, Entities } from "../members.js";
import { useLoad } from "../state.js";

export function Groups() {
  const [creating, setCreating] = useState(false);
  return html`<${Entities} title="Groups" what="group" icon="group" note="Members of a group get its policies." where="/auth/groups" page="/auth/groups" version=${0} onCreate=${() => setCreating(true)} />
    ${creating && html`<${CreateForm} what="group" where="/auth/groups" page="/auth/groups" withDescription onClose=${() => setCreating(false)} />`}`;
}

/** @param {{parts: Record<string, string>}} props */
export function GroupPage({ parts }) {
  const group = parts.group;
  const where = path`/auth/groups/${group}`;
  const found = useLoad((signal) => get(where, {}, signal), group);
  return html`<${Shown} of=${found}>${(/** @type {any} */ data) => html`<${Heading} title=${group} note=${html`${data.description || "Group"}, created <${Time} at=${data.creation_date} />`}><${DeleteButton} what="group" id=${group} where=${where} page="/auth/groups" text="Members lose the group's policies." /><//>
    <div class="columns"><${Belonging} title="Members" icon="user" where=${`${where}/members`} all="/auth/users" change=${(/** @type {string} */ user) => `${where}${path`/members/${user}`}`} page="/auth/users" empty="No members." />
      <${Belonging} title="Policies" icon="policy" where=${`${where}/policies`} all="/auth/policies" change=${(/** @type {string} */ policy) => `${where}${path`/policies/${policy}`}`} page="/auth/policies" empty="No policies." /></div>`}<//>`;
}
