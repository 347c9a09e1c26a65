// Picker of a branch, tag or commit.

import { html, useState } from "./vendor/preact-htm.js";
import { get, path } from "./api.js";
import { ErrorBox, Loading, Menu } from "./components.js";
import { short } from "./format.js";
import { Icon } from "./icons.js";
import { remember, remembered, useLoad } from "./state.js";

const AMOUNT = 100;

/** @param {string} ref */
const looksLikeCommit = (ref) => /^[0-9a-f]{32,64}$/.test(ref);

/** @param {{of: string}} props */
export function RefName({ of }) {
  const isCommit = looksLikeCommit(of);
  return html`<span class="row"><${Icon} name=${isCommit ? "commit" : "branch"} /><code title=${of}>${isCommit ? short(of) : of}</code></span>`;
}

/**
 * @param {{name: string, value: string, onPick: (ref: string) => void, label?: string, branchesOnly?: boolean}} props
 */
export function RefPicker({ name, value, onPick, label = "Ref", branchesOnly = false }) {
  const isCommit = looksLikeCommit(value);
  const shown = html`<${Icon} name=${isCommit ? "commit" : "branch"} /><span>${value ? (isCommit ? short(value) : value) : "Choose"}</span><${Icon} name="down" />`;
  return html`<div class="picker"><${Menu} label=${shown} title=${`${label}: ${value || "choose"}`}>
    ${(/** @type {() => void} */ close) => html`<${Choices} name=${name} value=${value} branchesOnly=${branchesOnly} onPick=${(/** @type {string} */ ref) => {
      remember(`refs.${name}`, ref);
      close();
      onPick(ref);
    }} />`}
  <//></div>`;
}

/** @param {{name: string, value: string, branchesOnly: boolean, onPick: (ref: string) => void}} props */
function Choices({ name, value, branchesOnly, onPick }) {
  const [text, setText] = useState("");
  const found = useLoad(async (signal) => {
    const query = { prefix: text, amount: AMOUNT };
    const [branches, tags] = await Promise.all([
      get(path`/repositories/${name}/branches`, query, signal),
      branchesOnly ? { results: [] } : get(path`/repositories/${name}/tags`, query, signal),
    ]);
    return { branches: branches.results, tags: tags.results };
  }, text);
  const recent = text ? [] : remembered(`refs.${name}`).filter((ref) => ref !== value && (!branchesOnly || !looksLikeCommit(ref)));
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const first = found.data && (found.data.branches[0] ?? found.data.tags[0]);
    const chosen = branchesOnly || found.data?.branches.some((/** @type {any} */ each) => each.id === text) ? first?.id : text;
    if (chosen) onPick(chosen);
  };
  return html`<form onSubmit=${submit}><input ref=${(/** @type {any} */ field) => field && !text && field.focus()} aria-label="Find a ref" placeholder=${branchesOnly ? "Find a branch" : "Find, or enter a ref: main~2, a commit id"}
      value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)} /></form>
    <div class="list">
      ${recent.length > 0 && html`<p>Recent</p>${recent.map((ref) => html`<${Choice} key=${`r${ref}`} icon=${looksLikeCommit(ref) ? "commit" : "branch"} ref_=${ref} value=${value} onPick=${onPick} />`)}`}
      ${found.error ? html`<${ErrorBox} error=${found.error} />` : !found.data ? html`<${Loading} rows=${3} />` : html`
        ${found.data.branches.length > 0 && html`<p>Branches</p>`}
        ${found.data.branches.map((/** @type {any} */ each) => html`<${Choice} key=${each.id} icon="branch" ref_=${each.id} value=${value} onPick=${onPick} />`)}
        ${found.data.tags.length > 0 && html`<p>Tags</p>`}
        ${found.data.tags.map((/** @type {any} */ each) => html`<${Choice} key=${`t${each.id}`} icon="tag" ref_=${each.id} value=${value} onPick=${onPick} />`)}
        ${found.data.branches.length + found.data.tags.length === 0 && html`<p>${branchesOnly ? "No match." : "No match. Press Enter to use it as a ref."}</p>`}`}
    </div>`;
}

/** @param {{icon: string, ref_: string, value: string, onPick: (ref: string) => void}} props */
function Choice({ icon, ref_, value, onPick }) {
  return html`<button type="button" aria-current=${ref_ === value ? "true" : undefined} onClick=${() => onPick(ref_)}>
    <${Icon} name=${icon} /><span title=${ref_}>${looksLikeCommit(ref_) ? short(ref_) : ref_}</span></button>`;
}
