// Imports of existing objects, without copying them.

import { html, useEffect, useState } from "../vendor/preact-htm.js";
import { get, path, post, remove } from "../api.js";
import { Badge, Button, ErrorBox, Facts, Field, Heading, Loading } from "../components.js";
import { count, counted } from "../format.js";
import { RefPicker } from "../refs.js";
import { Link, go, inRepository } from "../router.js";
import { useAction, useLoad, useMissing, useRefusal } from "../state.js";

const AGAIN_AFTER = 1500;

/** @param {{name: string, repository: any, query: URLSearchParams}} props */
export function ImportPage({ name, repository, query }) {
  const branch = query.get("ref") ?? repository.data?.default_branch;
  const id = query.get("id");
  if (!branch) return html`<${Loading} />`;
  return html`<${Heading} title="Import" note="Add existing objects of the storage to a branch, without copying them, in one commit." />
    ${id ? html`<${Progress} name=${name} branch=${branch} id=${id} />` : html`<${Start} name=${name} branch=${branch} readOnly=${Boolean(repository.data?.read_only)} />`}`;
}

/** @param {{name: string, branch: string, readOnly: boolean}} props */
function Start({ name, branch, readOnly }) {
  const config = useLoad((signal) => get("/config", {}, signal), "");
  const [source, setSource] = useState("");
  const [destination, setDestination] = useState("");
  const [kind, setKind] = useState("common_prefix");
  const [message, setMessage] = useState("");
  const action = useAction();
  const storage = config.data?.storage_config;
  const wrong = storage && source && !new RegExp(storage.import_validity_regex).test(source) ? `Must be in this server's storage, for example ${storage.blockstore_namespace_example}` : "";
  const missing = useMissing({ commit: ["fs:CreateCommit", `repository/${name}/branch/${branch}`], write: ["fs:WriteObject", `repository/${name}/branch/${branch}`] });
  const refusal = useRefusal(name, branch, readOnly) || missing.commit || missing.write;
  const why = refusal ? refusal : !source ? "Enter a source" : wrong ? "Correct the error above" : !message.trim() ? "Enter a commit message" : "";
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    return action.run(async () => {
      const started = await post(path`/repositories/${name}/branches/${branch}/import`, { paths: [{ type: kind, path: source, destination }], commit: { message } });
      go(inRepository(name, "import", { ref: branch, id: started.id }));
    });
  };
  return html`<form class="card pad stack narrow" onSubmit=${submit}>
    <div class="field"><span class="label">Into branch</span><${RefPicker} name=${name} value=${branch} label="Into branch" branchesOnly onPick=${(/** @type {string} */ ref) => go(inRepository(name, "import", { ref }))} /></div>
    <${Field} label="Import" value=${kind} onInput=${setKind} options=${[["common_prefix", "All objects below a folder"], ["object", "A single object"]]} />
    <${Field} label="Source" value=${source} onInput=${setSource} error=${wrong} class="mono" placeholder=${storage?.blockstore_namespace_example ?? ""} hint="A storage URI." />
    <${Field} label="Destination" value=${destination} onInput=${setDestination} class="mono" placeholder=${kind === "object" ? "path/of/the/object" : "folder/"} hint="A path on the branch. Existing objects there are replaced." />
    <${Field} label="Commit message" value=${message} onInput=${setMessage} />
    <${ErrorBox} error=${action.error} />
    <div class="row"><button class="primary" type="submit" disabled=${Boolean(why) || action.busy}>Import</button>${why && html`<span class="hint">${why}</span>`}</div></form>`;
}

/** @param {{name: string, branch: string, id: string}} props */
function Progress({ name, branch, id }) {
  const where = path`/repositories/${name}/branches/${branch}/import`;
  const status = useLoad((signal) => get(where, { id }, signal), id);
  const action = useAction();
  const found = status.data;
  const isOver = Boolean(found && (found.completed || found.error));
  useEffect(() => {
    if (isOver || status.error) return undefined;
    const timer = setInterval(status.reload, AGAIN_AFTER);
    return () => clearInterval(timer);
  }, [isOver, Boolean(status.error)]);
  if (status.error) return html`<${ErrorBox} error=${status.error} retry=${status.reload} />`;
  if (!found) return html`<${Loading} rows=${3} />`;
  return html`<section class="card pad stack"><div class="row"><${Badge} tone=${found.error ? "bad" : found.completed ? "good" : "warn"}>${found.error ? "failed" : found.completed ? "done" : "running"}<//><strong>${counted(found.ingested_objects, "object")}</strong></div>
    ${found.error && html`<p class="wrong">${found.error.message}</p>`}
    ${!isOver && html`<progress aria-label="Import" />`}
    <${Facts} of=${{ Branch: branch, Skipped: found.skipped_objects ? `${count(found.skipped_objects)}: ${found.skipped.slice(0, 3).join(", ")}` : "", [found.unchanged ? "No changes since commit" : "Commit"]: found.commit && html`<${Link} href=${inRepository(name, `commits/${found.commit.id}`)}>${found.commit.message}<//>` }} />
    <${ErrorBox} error=${action.error} />
    <div class="row">${isOver ? html`<${Link} class="button" href=${inRepository(name, "objects", { ref: branch })}>Objects on ${branch}<//><${Link} class="button" href=${inRepository(name, "import", { ref: branch })}>Another import<//>`
      : html`<${Button} kind="danger" disabled=${action.busy} onClick=${() => action.run(() => remove(where, { id })).then(status.reload)}>Cancel<//>`}</div></section>`;
}
