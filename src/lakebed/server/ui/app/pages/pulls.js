// Pull requests: proposed merges for review.

import { html, useState } from "../vendor/preact-htm.js";
import { ApiError, call, get, path, post, put } from "../api.js";
import { Badge, Button, Check, Empty, ErrorBox, Facts, Field, Form, Heading, More, Shown, Time } from "../components.js";
import { Conflicts, Differences } from "../diff.js";
import { Icon } from "../icons.js";
import { RefPicker } from "../refs.js";
import { Link, go, inRepository } from "../router.js";
import { hasFeature, notify, useAction, useList, useLoad, useMissing } from "../state.js";

/** @type {Record<string, string>} */
const TONES = { open: "good", merged: "accent", closed: "bad" };

/** @param {{name: string}} props */
export function Pulls({ name }) {
  const [status, setStatus] = useState("open");
  const list = useList(path`/repositories/${name}/pulls`, { status });
  const create = html`<${Link} class="button primary" href=${inRepository(name, "pulls/create")}><${Icon} name="plus" />Open a pull request<//>`;
  if (!hasFeature("pulls")) return html`<${Empty} icon="pull" title="Pull requests are not supported by this server"><p>Compare two branches to merge them.</p><${Link} class="button" href=${inRepository(name, "compare")}>Compare<//><//>`;
  return html`<${Heading} title="Pull requests"><div class="segments">${["open", "closed", "all"].map((each) => html`<button key=${each} aria-pressed=${each === status} onClick=${() => setStatus(each)}>${each}</button>`)}</div>${create}<//>
    <section class="card"><${Shown} of=${list}>${() => list.items.length === 0
      ? html`<${Empty} icon="pull" title=${status === "open" ? "No open pull requests" : "No pull requests"}><p>A pull request proposes a merge for review.</p>${create}<//>`
      : html`<ul class="items">${list.items.map((each) => html`<li key=${each.id}><span class="soft"><${Icon} name="pull" /></span><div class="grow"><${Link} href=${inRepository(name, `pulls/${each.id}`)}><strong>${each.title}</strong><//>
          <div class="soft small"><code>${each.source_branch}</code> into <code>${each.destination_branch}</code> · ${each.author} · <${Time} at=${asSeconds(each.creation_date)} /></div></div><${Badge} tone=${TONES[each.status]}>${each.status}<//></li>`)}</ul><${More} of=${list} what="more" />`}<//></section>`;
}

/** The list, with the form for a new pull request. @param {{name: string, repository: any, query: URLSearchParams}} props */
export function CreatePull({ name, repository, query }) {
  const into = query.get("ref") ?? repository.data?.default_branch;
  return html`<${Pulls} name=${name} />
    ${hasFeature("pulls") && into !== undefined && html`<${Creation} name=${name} into=${into} from=${query.get("compare") ?? ""} onClose=${() => go(inRepository(name, "pulls"))} />`}`;
}

/** Dates of pull requests are text. @param {string | number} moment */
function asSeconds(moment) {
  return typeof moment === "number" ? moment : Date.parse(moment) / 1000;
}

/** @param {{name: string, into: string, from: string, onClose: () => void}} props */
function Creation({ name, into, from, onClose }) {
  const [source, setSource] = useState(from);
  const [destination, setDestination] = useState(into);
  const [title, setTitle] = useState("");
  const [text, setText] = useState("");
  const action = useAction();
  const why = !source ? "Choose the branch to merge" : source === destination ? "Choose two different branches" : !title.trim() ? "Enter a title" : "";
  const submit = () => action.run(async () => {
    const made = await post(path`/repositories/${name}/pulls`, { title, description: text, source_branch: source, destination_branch: destination });
    go(inRepository(name, `pulls/${made.id}`));
  });
  return html`<${Form} title="Open a pull request" label="Open" action=${action} onClose=${onClose} onSubmit=${submit} why=${why} wide>
    <div class="versus"><${RefPicker} name=${name} value=${destination} branchesOnly label="Into" onPick=${setDestination} /><span class="soft"><${Icon} name="left" /></span><${RefPicker} name=${name} value=${source} branchesOnly label="From" onPick=${setSource} /></div>
    <${Field} label="Title" value=${title} onInput=${setTitle} data-focus />
    <${Field} label="Description" value=${text} onInput=${setText} multiline /><//>`;
}

/** @param {{name: string, parts: Record<string, string>}} props */
export function PullPage({ name, parts }) {
  const found = useLoad((signal) => get(path`/repositories/${name}/pulls/${parts.pull}`, {}, signal), `${name} ${parts.pull}`);
  return html`<${Shown} of=${found}>${(/** @type {any} */ pull) => html`<${One} name=${name} pull=${{ ...pull, id: parts.pull }} reload=${found.reload} />`}<//>`;
}

/** @param {{name: string, pull: any, reload: () => void}} props */
function One({ name, pull, reload }) {
  const action = useAction();
  const [conflicts, setConflicts] = useState(/** @type {any} */ (null));
  const key = `${pull.id} ${pull.status}`;
  const parting = useLoad((signal) => get(path`/repositories/${name}/refs/${pull.source_branch}/merge/${pull.destination_branch}`, {}, signal).catch(() => null), key);
  const isOpen = pull.status === "open";
  const missing = useMissing({ merge: ["fs:CreateCommit", `repository/${name}/branch/${pull.destination_branch}`] });
  const why = pull.merging ? "Merge in progress" : pull.not_mergeable_because || (pull.mergeable === false ? "Cannot be merged" : missing.merge);
  const [dropSource, setDropSource] = useState(false);
  const merge = () => action.run(async () => {
    try {
      await put(path`/repositories/${name}/pulls/${pull.id}/merge`, undefined, dropSource ? { delete_source: true } : {});
    } catch (error) {
      if (error instanceof ApiError && Array.isArray(error.body.conflicts)) setConflicts(error.body);
      throw error;
    }
    notify(`Merged ${pull.source_branch} into ${pull.destination_branch}`);
    reload();
  });
  const setStatus = (/** @type {string} */ status) => action.run(async () => {
    await call("PATCH", path`/repositories/${name}/pulls/${pull.id}`, { body: { status } });
    reload();
  });
  return html`<${Heading} title=${pull.title} note=${html`<${Badge} tone=${TONES[pull.status]}>${pull.status}<//> ${pull.author} wants <code>${pull.source_branch}</code> merged into <code>${pull.destination_branch}</code>`}>
      ${isOpen && html`<${Button} disabled=${action.busy} onClick=${() => setStatus("closed")}>Close<//><${Button} kind="primary" icon="merge" why=${why} disabled=${action.busy} onClick=${merge}>${action.busy ? "Merging…" : "Merge"}<//>`}
      ${pull.status === "closed" && html`<${Button} disabled=${action.busy} onClick=${() => setStatus("open")}>Reopen<//>`}<//>
    <${ErrorBox} error=${action.error} />
    ${isOpen && why && html`<div class="notice warn"><${Icon} name="warning" /><div><strong>${pull.conflicts ? "This pull request has conflicts" : "This pull request cannot be merged"}</strong><p>${why}</p></div></div>`}
    ${isOpen && !why && html`<${Check} label=${html`Delete <code>${pull.source_branch}</code> after the merge`} value=${dropSource} onInput=${setDropSource} />`}
    ${conflicts && html`<${Conflicts} conflicts=${conflicts.conflicts} total=${conflicts.conflicts_total} name=${name} left=${pull.source_branch} right=${pull.destination_branch} />`}
    <div class="split"><div class="stack">${pull.description && html`<section class="card pad"><p class="message">${pull.description}</p></section>`}
      ${pull.merged_commit_id ? html`<${Differences} name=${name} where=${path`/repositories/${name}/refs/${`${pull.merged_commit_id}~1`}/diff/${pull.merged_commit_id}`} query=${{ type: "two_dot" }} left=${`${pull.merged_commit_id}~1`} right=${pull.merged_commit_id} empty=${html`<${Empty} icon="check" title="No changes" />`} />`
        : html`<${Differences} name=${name} where=${path`/repositories/${name}/refs/${pull.destination_branch}/diff/${pull.source_branch}`} left=${parting.data?.base_commit_id ?? ""} right=${parting.data?.source_commit_id ?? pull.source_branch} empty=${html`<${Empty} icon="check" title="Nothing to merge" />`} />`}</div>
      <aside class="card pad" aria-label="About this pull request"><${Facts} of=${{
        Opened: html`<${Time} at=${asSeconds(pull.creation_date)} />`,
        Closed: pull.closed_date && html`<${Time} at=${asSeconds(pull.closed_date)} />`,
        From: html`<${Link} href=${inRepository(name, "objects", { ref: pull.source_branch })}><code>${pull.source_branch}</code><//>`,
        Into: html`<${Link} href=${inRepository(name, "objects", { ref: pull.destination_branch })}><code>${pull.destination_branch}</code><//>`,
        "Merged as": pull.merged_commit_id && html`<${Link} href=${inRepository(name, `commits/${pull.merged_commit_id}`)}><code>${pull.merged_commit_id.slice(0, 10)}</code><//>`,
      }} /></aside></div>`;
}
