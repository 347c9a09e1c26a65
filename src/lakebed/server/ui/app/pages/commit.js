// A commit: message, metadata and changes.

import { html, useState } from "../vendor/preact-htm.js";
import { get, path, post } from "../api.js";
import { Button, Empty, Facts, Field, Form, Heading, Id, Shown, Time } from "../components.js";
import { Differences } from "../diff.js";
import { exact, short } from "../format.js";
import { Icon } from "../icons.js";
import { Link, go, inRepository } from "../router.js";
import { notify, useAction, useLoad } from "../state.js";

/** @param {{name: string, repository: any, parts: Record<string, string>}} props */
export function CommitPage({ name, repository, parts }) {
  const found = useLoad((signal) => get(path`/repositories/${name}/commits/${parts.commit}`, {}, signal), `${name} ${parts.commit}`);
  return html`<${Shown} of=${found}>${(/** @type {import("../api.js").Commit} */ commit) => html`<${One} name=${name} repository=${repository} commit=${commit} />`}<//>`;
}

/** @param {{name: string, repository: any, commit: import("../api.js").Commit}} props */
function One({ name, repository, commit }) {
  const [dialog, setDialog] = useState("");
  const [parent, setParent] = useState(0);
  const [title, ...rest] = (commit.message || "(no message)").split("\n");
  const why = commit.refused ? "A hook refused this commit" : repository.data?.read_only ? "This repository is read-only" : "";
  const isFirst = commit.parents.length === 0;
  const against = commit.parents[parent];
  return html`<${Heading} title=${title} note=${html`${commit.committer || "Lakebed"} committed <${Time} at=${commit.creation_date} />`}>
      <${Link} class="button" href=${inRepository(name, "objects", { ref: commit.id })}><${Icon} name="folder" />Objects<//>
      <${Button} icon="branch" why=${why} onClick=${() => setDialog("branch")}>Branch from here<//>
      <${Button} icon="undo" why=${why || (isFirst ? "The first commit cannot be reverted" : "")} onClick=${() => setDialog("revert")}>Revert<//>
      <${Button} icon="commit" why=${why || (isFirst ? "The first commit has no changes" : "")} onClick=${() => setDialog("cherry-pick")}>Cherry-pick<//><//>
    ${commit.refused && html`<div class="notice failed" role="status"><${Icon} name="warning" /><div><strong>Refused by a hook; not on any branch</strong><p>Refused by ${commit.refused}.</p></div></div>`}
    <div class="split"><div class="stack">
        ${rest.join("\n").trim() && html`<section class="card pad"><p class="message">${rest.join("\n").trim()}</p></section>`}
        ${commit.parents.length > 1 && html`<div class="row small"><span class="soft">Changes against</span>${commit.parents.map((each, at) => html`<button key=${each} class=${at === parent ? "primary" : ""} onClick=${() => setParent(at)}>parent ${at + 1}: ${short(each)}</button>`)}</div>`}
        ${isFirst ? html`<section class="card"><${Empty} icon="commit" title="First commit of the repository" /></section>`
          : html`<${Differences} key=${against} name=${name} where=${path`/repositories/${name}/refs/${against}/diff/${commit.id}`} query=${{ type: "two_dot" }} left=${against} right=${commit.id} empty=${html`<${Empty} icon="check" title="No changed objects" />`} />`}</div>
      <aside class="card pad" aria-label="About this commit"><${Facts} of=${{
        Commit: html`<${Id} id=${commit.id} what="commit id" />`,
        Parents: commit.parents.length ? commit.parents.map((each) => html`<div key=${each}><${Link} href=${inRepository(name, `commits/${each}`)}><code>${short(each)}</code><//></div>`) : "none",
        Author: commit.committer,
        Time: exact(commit.creation_date),
        Generation: commit.generation,
        Metarange: commit.meta_range_id && html`<${Id} id=${commit.meta_range_id} what="metarange id" />`,
        ...Object.fromEntries(Object.entries(commit.metadata).map(([key, value]) => [`metadata: ${key}`, value])),
      }} /></aside></div>
    ${dialog === "branch" && html`<${BranchHere} name=${name} commit=${commit} onClose=${() => setDialog("")} />`}
    ${(dialog === "revert" || dialog === "cherry-pick") && html`<${Again} kind=${dialog} name=${name} commit=${commit} branch=${repository.data?.default_branch ?? ""} onClose=${() => setDialog("")} />`}`;
}

/** @param {{name: string, commit: import("../api.js").Commit, onClose: () => void}} props */
function BranchHere({ name, commit, onClose }) {
  const [text, setText] = useState("");
  const action = useAction();
  const submit = async () => {
    if (await action.run(() => post(path`/repositories/${name}/branches`, { name: text, source: commit.id }))) go(inRepository(name, "objects", { ref: text }));
  };
  return html`<${Form} title="Branch from this commit" label="Create branch" action=${action} onClose=${onClose} onSubmit=${submit} why=${text ? "" : "Enter a name"}>
    <${Field} label="Branch name" value=${text} onInput=${setText} /><//>`;
}

/** @param {{kind: string, name: string, commit: import("../api.js").Commit, branch: string, onClose: () => void}} props */
function Again({ kind, name, commit, branch, onClose }) {
  const [target, setTarget] = useState(branch);
  const [parent, setParent] = useState("1");
  const action = useAction();
  const isMerge = commit.parents.length > 1;
  const isRevert = kind === "revert";
  const submit = async () => {
    const number = isMerge ? Number(parent) : undefined;
    const done = await action.run(() => isRevert
      ? post(path`/repositories/${name}/branches/${target}/revert`, { ref: commit.id, parent_number: number ?? 0 })
      : post(path`/repositories/${name}/branches/${target}/cherry-pick`, { ref: commit.id, parent_number: number }));
    if (!done) return;
    notify(`${isRevert ? "Reverted" : "Cherry-picked"} on ${target}`);
    go(inRepository(name, "commits", { ref: target }));
  };
  return html`<${Form} title=${isRevert ? "Revert this commit" : "Cherry-pick this commit"} label=${isRevert ? "Revert" : "Cherry-pick"} action=${action} onClose=${onClose} onSubmit=${submit} why=${target ? "" : "Choose a branch"}>
    <p class="soft">${isRevert ? "Creates a commit that undoes the changes of this commit." : "Creates a commit with the changes of this commit."} The branch must have no uncommitted changes.</p>
    <${Field} label="On branch" value=${target} onInput=${setTarget} />
    ${isMerge && html`<${Field} label="Changes against" value=${parent} onInput=${setParent} options=${commit.parents.map((each, at) => [String(at + 1), `parent ${at + 1}: ${short(each)}`])} />`}<//>`;
}
