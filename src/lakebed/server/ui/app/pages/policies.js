// Policies, and an editor that validates them.

import { html, useState } from "../vendor/preact-htm.js";
import { get, path, post, put } from "../api.js";
import { Button, ErrorBox, Field, Form, Heading, Shown } from "../components.js";
import { DeleteButton, Entities } from "../members.js";
import { go } from "../router.js";
import { notify, useAction, useLoad, useMissing } from "../state.js";

const EXAMPLE = [{ effect: "allow", action: ["fs:ReadObject", "fs:ListObjects"], resource: "arn:lakefs:fs:::repository/my-lake/*" }];

/**
 * The first error in a policy's statements; empty if valid.
 * @param {string} text
 */
export function faultOf(text) {
  let found;
  try {
    found = JSON.parse(text);
  } catch (error) {
    return `Invalid JSON: ${/** @type {Error} */ (error).message}`;
  }
  if (!Array.isArray(found) || found.length === 0) return "Must be a list of statements: [{…}]";
  for (const [at, each] of found.entries()) {
    const where = `Statement ${at + 1}`;
    if (each === null || typeof each !== "object") return `${where} must be an object: {…}`;
    if (!["allow", "deny"].includes(each.effect)) return `${where}: effect must be "allow" or "deny"`;
    if (!Array.isArray(each.action) || each.action.length === 0) return `${where}: action must be a list such as ["fs:ReadObject"]`;
    const odd = each.action.find((/** @type {any} */ one) => typeof one !== "string" || !/^(\*|[a-z]+:[A-Za-z*]+)$/.test(one));
    if (odd !== undefined) return `${where}: “${odd}” is not an action: write it as fs:ReadObject or fs:*`;
    if (typeof each.resource !== "string" || !/^(\*|arn:|\[)/.test(each.resource)) return `${where}: resource must be "*" or begin with arn:`;
    const unknown = Object.keys(each).find((key) => !["effect", "action", "resource", "condition"].includes(key));
    if (unknown) return `${where}: “${unknown}” is not part of a statement`;
  }
  return "";
}

export function Policies() {
  const [creating, setCreating] = useState(false);
  return html`<${Entities} title="Policies" what="policy" icon="policy" note="Permissions that can be attached to users and groups." where="/auth/policies" page="/auth/policies" version=${0} onCreate=${() => setCreating(true)} />
    ${creating && html`<${Creation} onClose=${() => setCreating(false)} />`}`;
}

/** @param {{text: string, onInput: (text: string) => void}} props */
function Editor({ text, onInput }) {
  return html`<${Field} label="Statements" multiline class="mono" value=${text} onInput=${onInput} error=${faultOf(text)} hint="Deny overrides allow." />`;
}

/** @param {{onClose: () => void}} props */
function Creation({ onClose }) {
  const [id, setId] = useState("");
  const [text, setText] = useState(JSON.stringify(EXAMPLE, null, 2));
  const action = useAction();
  const submit = async () => {
    if (await action.run(() => post("/auth/policies", { id, statement: JSON.parse(text) }))) go(`/auth/policies/${encodeURIComponent(id)}`);
  };
  return html`<${Form} title="Create a policy" label="Create" wide action=${action} onClose=${onClose} onSubmit=${submit} why=${!id.trim() ? "Enter a name" : faultOf(text) ? "Correct the statements" : ""}>
    <${Field} label="Name" value=${id} onInput=${setId} /><${Editor} text=${text} onInput=${setText} /><//>`;
}

/** @param {{parts: Record<string, string>}} props */
export function PolicyPage({ parts }) {
  const id = parts.policy;
  const where = path`/auth/policies/${id}`;
  const found = useLoad((signal) => get(where, {}, signal), id);
  const [text, setText] = useState(/** @type {string | null} */ (null));
  const action = useAction();
  const missing = useMissing({ save: ["auth:UpdatePolicy", `policy/${id}`] });
  const shown = text ?? JSON.stringify(found.data?.statement ?? [], null, 2);
  const save = async () => {
    if (!(await action.run(() => put(where, { id, statement: JSON.parse(shown) })))) return;
    notify("Policy saved");
    setText(null);
    found.reload();
  };
  return html`<${Shown} of=${found}>${() => html`<${Heading} title=${id} note="Policy"><${DeleteButton} what="policy" id=${id} where=${where} page="/auth/policies" text="Users and groups lose the permissions of this policy." />
      <${Button} kind="primary" why=${missing.save} disabled=${text === null || action.busy || Boolean(faultOf(shown))} onClick=${save}>Save<//><//>
    <section class="card pad stack"><${Editor} text=${shown} onInput=${setText} /><${ErrorBox} error=${action.error} /></section>`}<//>`;
}
