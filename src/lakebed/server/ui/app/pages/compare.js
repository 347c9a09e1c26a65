// Comparison and merge of two refs.

import { html, useState } from "../vendor/preact-htm.js";
import { ApiError, get, path, post } from "../api.js";
import { Button, Check, Empty, Field, Form, Heading, Loading, Pairs, asRecord } from "../components.js";
import { Conflicts, Differences } from "../diff.js";
import { Icon } from "../icons.js";
import { RefPicker } from "../refs.js";
import { Link, go, inRepository } from "../router.js";
import { hasFeature, notify, useAction, useLoad, useMissing } from "../state.js";

/** @type {[string, string][]} */
const STRATEGIES = [
  ["", "Stop on conflict"],
  ["source-wins", "Source wins"],
  ["dest-wins", "Destination wins"],
];

/** @param {{name: string, repository: any, query: URLSearchParams}} props */
export function Compare({ name, repository, query }) {
  const base = query.get("ref") ?? repository.data?.default_branch;
  const head = query.get("compare") ?? base;
  if (!base || !head) return html`<${Loading} />`;
  return html`<${Both} key=${`${base} ${head}`} name=${name} base=${base} head=${head} readOnly=${Boolean(repository.data?.read_only)} />`;
}

/** @param {{name: string, base: string, head: string, readOnly: boolean}} props */
function Both({ name, base, head, readOnly }) {
  const [merging, setMerging] = useState(false);
  const [conflicts, setConflicts] = useState(/** @type {any} */ (null));
  const [round, setRound] = useState(0);
  const key = `${name} ${base} ${head} ${round}`;
  const parting = useLoad((signal) => (base === head ? Promise.resolve(null) : get(path`/repositories/${name}/refs/${head}/merge/${base}`, {}, signal).catch(() => null)), key);
  const branch = useLoad((signal) => get(path`/repositories/${name}/branches/${base}`, {}, signal).catch(() => null), key);
  const { merge } = useMissing({ merge: ["fs:CreateCommit", `repository/${name}/branch/${base}`] });
  const pick = (/** @type {string} */ left, /** @type {string} */ right) => go(inRepository(name, "compare", { ref: left, compare: right }));
  const isMerged = parting.data && parting.data.base_commit_id === parting.data.source_commit_id;
  const why = readOnly ? "This repository is read-only" : base === head ? "Choose two different refs" : branch.data === null ? `${base} is not a branch, so it cannot be merged into` : isMerged ? `${base} already has all commits of ${head}` : merge;
  return html`<${Heading} title="Compare" note=${`Changes on ${head} since it diverged from ${base}.`}>
      ${hasFeature("pulls") && html`<${Link} class="button" href=${inRepository(name, "pulls/create", { ref: base, compare: head })}><${Icon} name="pull" />Open a pull request<//>`}
      <${Button} kind="primary" icon="merge" why=${why} onClick=${() => setMerging(true)}>Merge<//><//>
    <div class="versus"><${RefPicker} name=${name} value=${base} label="Into" onPick=${(/** @type {string} */ ref) => pick(ref, head)} /><span class="soft"><${Icon} name="left" /><span class="unseen">receives from</span></span>
      <${RefPicker} name=${name} value=${head} label="From" onPick=${(/** @type {string} */ ref) => pick(base, ref)} />
      <${Button} kind="quiet" icon="compare" aria-label="Switch sides" onClick=${() => pick(head, base)}><span class="wide-only">Switch sides</span><//></div>
    ${why && base !== head && html`<p class="soft small">${why}.</p>`}
    ${conflicts && html`<${Conflicts} conflicts=${conflicts.conflicts} total=${conflicts.conflicts_total} name=${name} left=${head} right=${base} />`}
    ${base === head ? html`<section class="card"><${Empty} icon="compare" title="Choose refs to compare"><p>Pick another ref on the right to see its changes and merge them into the left ref.</p><//></section>`
      : html`<${Differences} key=${round} name=${name} where=${path`/repositories/${name}/refs/${base}/diff/${head}`} left=${parting.data?.base_commit_id ?? base} right=${parting.data?.source_commit_id ?? head}
        empty=${html`<${Empty} icon="check" title="No differences"><p>${head} has no changes that ${base} does not have.</p><//>`} />`}
    ${merging && html`<${MergeForm} name=${name} base=${base} head=${head} onClose=${() => setMerging(false)} onConflict=${setConflicts} onDone=${() => { setMerging(false); setConflicts(null); setRound(round + 1); }} />`}`;
}

/** @param {{name: string, base: string, head: string, onClose: () => void, onDone: () => void, onConflict: (body: any) => void}} props */
function MergeForm({ name, base, head, onClose, onDone, onConflict }) {
  const [message, setMessage] = useState("");
  const [strategy, setStrategy] = useState("");
  const [squash, setSquash] = useState(false);
  const [pairs, setPairs] = useState(/** @type {[string, string][]} */ ([]));
  const action = useAction();
  const submit = async () => {
    const done = await action.run(async () => {
      try {
        await post(path`/repositories/${name}/refs/${head}/merge/${base}`, { message, strategy, squash_merge: squash, metadata: asRecord(pairs) });
      } catch (error) {
        if (error instanceof ApiError && Array.isArray(error.body.conflicts)) onConflict(error.body);
        throw error;
      }
    });
    if (!done) return;
    notify(`Merged ${head} into ${base}`);
    onDone();
  };
  return html`<${Form} title=${`Merge ${head} into ${base}`} label="Merge" action=${action} onClose=${onClose} onSubmit=${submit}>
    <${Field} label="Message" value=${message} onInput=${setMessage} multiline placeholder=${`Merge '${head}' into '${base}'`} />
    <${Field} label="On conflict" value=${strategy} onInput=${setStrategy} options=${STRATEGIES} />
    <${Check} label="Squash: a single commit without the source's history" value=${squash} onInput=${setSquash} />
    <${Pairs} label="Metadata" pairs=${pairs} onInput=${setPairs} /><//>`;
}
