// Login, and setup of a new server.

import { html, useEffect, useState } from "../vendor/preact-htm.js";
import { get, post } from "../api.js";
import { Code, ErrorBox, Field, Loading } from "../components.js";
import { go } from "../router.js";
import { useAction, useLoad } from "../state.js";

/** @param {{title: string, note?: any, children?: any}} props */
function Gate({ title, note, children }) {
  return html`<main class="gate"><div class="card">
    <div class="brand"><img src=${new URL("../logo.svg", import.meta.url).pathname} alt="" />Lakebed</div>
    <div><h1>${title}</h1>${note && html`<p class="soft">${note}</p>`}</div>${children}</div></main>`;
}

/** The page after a login: only a path of this server. @param {string | null} next */
function safeNext(next) {
  return next && next.startsWith("/") && !next.startsWith("//") && !next.includes("\\") ? next : "/repositories";
}

/** @param {{query: URLSearchParams}} props */
export function Login({ query }) {
  const [key, setKey] = useState("");
  const [secret, setSecret] = useState("");
  const action = useAction();
  const state = useLoad(() => get("/setup_lakefs"), "");
  useEffect(() => {
    if (state.data?.state === "not_initialized") go("/setup", { replace: true });
  }, [state.data]);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const done = await action.run(() => post("/auth/login", { access_key_id: key.trim(), secret_access_key: secret.trim() }));
    if (done) go(safeNext(query.get("next")), { replace: true });
  };
  return html`<${Gate} title="Log in" note="Use your access keys.">
    <form onSubmit=${submit}>
      <${Field} label="Access key ID" value=${key} onInput=${setKey} autocomplete="username" name="username" class="mono" required />
      <${Field} label="Secret access key" value=${secret} onInput=${setSecret} type="password" autocomplete="current-password" name="password" required />
      <${ErrorBox} error=${action.error} />
      <button class="primary" type="submit" disabled=${action.busy}>${action.busy ? "Logging in…" : "Log in"}</button>
    </form>
  <//>`;
}

export function Setup() {
  const state = useLoad(() => get("/setup_lakefs"), "");
  const [name, setName] = useState("admin");
  const [keys, setKeys] = useState(/** @type {any} */ (null));
  const action = useAction();
  if (keys) return html`<${NewKeys} keys=${keys} />`;
  if (state.data?.state === "initialized")
    return html`<${Gate} title="This server is set up" note="The first administrator has the keys."><a class="button primary" href="/auth/login">Log in</a><//>`;
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    await action.run(async () => setKeys(await post("/setup_lakefs", { username: name.trim() })));
  };
  return html`<${Gate} title="Set up this server" note="Create the first administrator, with a key pair for the web UI and for programs.">
    ${state.loading ? html`<${Loading} rows=${3} />` : html`<form onSubmit=${submit}>
      <${Field} label="Administrator name" value=${name} onInput=${setName} required hint="You can add other users later." />
      <${ErrorBox} error=${state.error ?? action.error} />
      <button class="primary" type="submit" disabled=${action.busy || !name.trim()}>${action.busy ? "Setting up…" : "Set up"}</button>
    </form>`}
  <//>`;
}

/** @param {{keys: {access_key_id: string, secret_access_key: string}}} props */
function NewKeys({ keys }) {
  const [kept, setKept] = useState(false);
  const action = useAction();
  const enter = () =>
    action.run(async () => {
      await post("/auth/login", { access_key_id: keys.access_key_id, secret_access_key: keys.secret_access_key });
      go("/repositories", { replace: true });
    });
  return html`<${Gate} title="Save these keys" note="The secret is shown only once.">
    <${Code} what="keys" text=${`access_key_id: ${keys.access_key_id}\nsecret_access_key: ${keys.secret_access_key}`} />
    <label class="check"><input type="checkbox" checked=${kept} onInput=${(/** @type {any} */ event) => setKept(event.target.checked)} /> <span>I have saved them in a safe place</span></label>
    <${ErrorBox} error=${action.error} />
    <button class="primary" disabled=${!kept || action.busy} onClick=${enter}>Continue</button>
  <//>`;
}
