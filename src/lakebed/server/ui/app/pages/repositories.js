// All repositories.

import { html, useState } from "../vendor/preact-htm.js";
import { get, post } from "../api.js";
import { Badge, Check, Empty, Field, Filter, Form, Heading, More, Shown, Time, Button } from "../components.js";
import { Icon } from "../icons.js";
import { Link, go, inRepository } from "../router.js";
import { useAction, useList, useLoad } from "../state.js";

const NAME = /^[a-z0-9][a-z0-9-]{2,62}$/;

export function Repositories() {
  const [text, setText] = useState("");
  const [creating, setCreating] = useState(false);
  const list = useList("/repositories", { search: text });
  const create = html`<${Button} kind="primary" icon="plus" onClick=${() => setCreating(true)}>Create repository<//>`;
  return html`<${Heading} title="Repositories"><${Filter} label="Search repositories" value=${text} onInput=${setText} />${create}<//>
    <section class="card"><${Shown} of=${list}>${() => list.items.length === 0
      ? text
        ? html`<${Empty} icon="search" title=${`No match for “${text}”`}><button onClick=${() => setText("")}>Show all</button><//>`
        : html`<${Empty} icon="repository" title="No repositories yet"><p>A repository versions the data at a location of your storage. Start with sample data to try it.</p>${create}<//>`
      : html`<ul class="items">${list.items.map((each) => html`<${Row} key=${each.id} repository=${each} />`)}</ul><${More} of=${list} what="more repositories" />`}<//></section>
    ${creating && html`<${Creation} onClose=${() => setCreating(false)} />`}`;
}

/** @param {{repository: import("../api.js").Repository}} props */
function Row({ repository }) {
  return html`<li><span class="soft"><${Icon} name="repository" /></span>
    <div class="grow"><${Link} href=${inRepository(repository.id, "objects", { ref: repository.default_branch })}><strong>${repository.id}</strong><//>
      <div class="small soft"><code>${repository.storage_namespace}</code></div></div>
    ${repository.read_only && html`<${Badge}><${Icon} name="lock" />read-only<//>`}
    <span class="soft small">created <${Time} at=${repository.creation_date} /></span></li>`;
}

/** @param {{onClose: () => void}} props */
function Creation({ onClose }) {
  const config = useLoad((signal) => get("/config", {}, signal), "");
  const [name, setName] = useState("");
  const [place, setPlace] = useState(/** @type {string | null} */ (null));
  const [branch, setBranch] = useState("main");
  const [sample, setSample] = useState(false);
  const [readOnly, setReadOnly] = useState(false);
  const action = useAction();
  const storage = config.data?.storage_config;
  const prefix = storage?.default_namespace_prefix || storage?.blockstore_namespace_example?.replace(/[^/]*$/, "") || "";
  const namespace = place ?? (prefix && name ? `${prefix.replace(/\/$/, "")}/${name}` : prefix);
  const wrongName = name && !NAME.test(name) ? "3 to 63 characters of a-z, 0-9 and -, starting with a letter or digit" : "";
  const wrongPlace = storage && namespace && (name || place !== null) && !new RegExp(storage.blockstore_namespace_ValidityRegex).test(namespace)
    ? `This server's storage is ${storage.blockstore_type}: start with ${storage.blockstore_namespace_example.replace(/:.*/, "://")}` : "";
  const submit = async () => {
    const body = { name, storage_namespace: namespace, default_branch: branch, sample_data: sample, read_only: readOnly };
    if (await action.run(() => post("/repositories", body))) go(inRepository(name, "objects", { ref: branch }));
  };
  return html`<${Form} title="Create a repository" label="Create" action=${action} onSubmit=${submit} onClose=${onClose}
      why=${!name ? "Enter a name" : wrongName || wrongPlace ? "Correct the error above" : ""}>
    <${Field} label="Name" value=${name} onInput=${setName} error=${wrongName} placeholder="my-lake" data-focus />
    <${Field} label="Storage namespace" value=${namespace} onInput=${setPlace} error=${wrongPlace} class="mono" hint=${`Location of the objects, not shared with another repository. ${storage ? `Example: ${storage.blockstore_namespace_example}` : ""}`} />
    <${Field} label="Default branch" value=${branch} onInput=${setBranch} />
    <${Check} label="Add sample data: tables, commits and branches" value=${sample} onInput=${setSample} disabled=${readOnly} />
    <${Check} label="Read-only" value=${readOnly} onInput=${(/** @type {boolean} */ value) => { setReadOnly(value); if (value) setSample(false); }} />
  <//>`;
}
