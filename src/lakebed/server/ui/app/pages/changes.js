// Uncommitted changes of a branch.

import { html, useState } from "../vendor/preact-htm.js";
import { path, post, put } from "../api.js";
import { Button, Check, Empty, Field, Form, Heading, Loading, Pairs, asRecord } from "../components.js";
import { Differences } from "../diff.js";
import { RefPicker } from "../refs.js";
import { Link, go, inRepository } from "../router.js";
import { notify, notifyError, useAction, useMissing, useRefusal } from "../state.js";

/** @param {{name: string, repository: any, query: URLSearchParams}} props */
export function Changes({ name, repository, query }) {
  const branch = query.get("ref") ?? repository.data?.default_branch;
  const [dialog, setDialog] = useState("");
  const [round, setRound] = useState(0);
  const where = `repository/${name}/branch/${branch}`;
  /** @type {Record<string, string>} */
  const missing = useMissing(branch ? { commit: ["fs:CreateCommit", where], reset: ["fs:RevertBranch", where] } : {});
  const why = useRefusal(name, branch ?? "", repository.data?.read_only);
  if (!branch) return html`<${Loading} />`;
  const again = () => {
    setDialog("");
    setRound(round + 1);
  };
  const reset = async (/** @type {any} */ item) => {
    try {
      await put(path`/repositories/${name}/branches/${branch}`, { type: item.path_type === "common_prefix" ? "common_prefix" : "object", path: item.path });
      notify(`Discarded the change of ${item.path}`);
      again();
    } catch (error) {
      notifyError(error);
    }
  };
  return html`<${Heading} title="Uncommitted changes" note="Changes on this branch that are not in a commit yet.">
      <${RefPicker} name=${name} value=${branch} label="Branch" branchesOnly onPick=${(/** @type {string} */ ref) => go(inRepository(name, "changes", { ref }))} />
      <${Button} icon="undo" kind="danger" why=${why || missing.reset} onClick=${() => setDialog("reset")}>Discard all<//>
      <${Button} icon="commit" kind="primary" why=${why || missing.commit} onClick=${() => setDialog("commit")}>Commit<//><//>
    <${Differences} key=${`${branch} ${round}`} name=${name} where=${path`/repositories/${name}/branches/${branch}/diff`} left=${`${branch}@`} right=${branch}
      empty=${html`<${Empty} icon="check" title="No uncommitted changes"><p>Uploads and deletions on ${branch} appear here.</p><${Link} class="button" href=${inRepository(name, "objects", { ref: branch })}>Objects on ${branch}<//><//>`}
      tools=${(/** @type {any} */ item) => html`<${Button} kind="bare" icon="undo" why=${why || missing.reset} aria-label=${`Discard the change of ${item.path}`} onClick=${() => reset(item)} />`} />
    ${dialog === "commit" && html`<${CommitForm} name=${name} branch=${branch} onClose=${() => setDialog("")} onDone=${again} />`}
    ${dialog === "reset" && html`<${ResetForm} name=${name} branch=${branch} onClose=${() => setDialog("")} onDone=${again} />`}`;
}

/** @param {{name: string, branch: string, onClose: () => void, onDone: () => void}} props */
function CommitForm({ name, branch, onClose, onDone }) {
  const [message, setMessage] = useState("");
  const [pairs, setPairs] = useState(/** @type {[string, string][]} */ ([]));
  const [empty, setEmpty] = useState(false);
  const action = useAction();
  const submit = async () => {
    const done = await action.run(async () => {
      const commit = await post(path`/repositories/${name}/branches/${branch}/commits`, { message, metadata: asRecord(pairs), allow_empty: empty });
      notify(`Committed to ${branch}: ${commit.id.slice(0, 10)}`);
    });
    if (done) onDone();
  };
  return html`<${Form} title=${`Commit to ${branch}`} label="Commit" action=${action} onClose=${onClose} onSubmit=${submit} why=${message.trim() ? "" : "Enter a message"}>
    <${Field} label="Message" value=${message} onInput=${setMessage} multiline placeholder="Describe the changes and the reason" />
    <${Pairs} label="Metadata" pairs=${pairs} onInput=${setPairs} />
    <${Check} label="Allow an empty commit" value=${empty} onInput=${setEmpty} /><//>`;
}

/** @param {{name: string, branch: string, onClose: () => void, onDone: () => void}} props */
function ResetForm({ name, branch, onClose, onDone }) {
  const action = useAction();
  const submit = async () => (await action.run(() => put(path`/repositories/${name}/branches/${branch}`, { type: "reset" }))) && onDone();
  return html`<${Form} title="Discard all changes" label="Discard all" kind="danger" action=${action} onClose=${onClose} onSubmit=${submit}>
    <p>This permanently discards all uncommitted changes on <strong>${branch}</strong>.</p><//>`;
}
