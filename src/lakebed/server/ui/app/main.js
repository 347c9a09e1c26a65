// The app: routes, navigation and frame.

import { html, render, useEffect, useErrorBoundary, useLayoutEffect, useRef, useState } from "./vendor/preact-htm.js";
import { get, path, whenSignedOut } from "./api.js";
import { Dialog, Empty, ErrorBox, Loading, Menu } from "./components.js";
import { Icon } from "./icons.js";
import { Link, go, here, inRepository, match, to, usePlace } from "./router.js";
import { dismiss, hasFeature, useLoad, useNotes } from "./state.js";

/**
 * A page whose module is loaded on first use.
 * @param {() => Promise<any>} load
 */
function later(load) {
  /** @type {any} */
  let known = null;
  return (/** @type {any} */ props) => {
    const [Page, setPage] = useState(() => known);
    const [failed, setFailed] = useState(false);
    useEffect(() => {
      if (Page) return;
      load().then(
        (page) => {
          known = page;
          setPage(() => page);
        },
        () => setFailed(true),
      );
    }, []);
    if (failed)
      return html`<${Empty} icon="warning" title="Cannot load this page"><p>The server may be unreachable, or have a new version.</p>
        <button onClick=${() => window.location.reload()}>Reload</button><//>`;
    return Page ? html`<${Page} ...${props} />` : html`<div class="card"><${Loading} rows=${6} /></div>`;
  };
}

const Objects = later(() => import("./pages/objects.js").then((module) => module.Objects));
const ObjectPage = later(() => import("./pages/object.js").then((module) => module.ObjectPage));
const Changes = later(() => import("./pages/changes.js").then((module) => module.Changes));
const Commits = later(() => import("./pages/commits.js").then((module) => module.Commits));
const CommitPage = later(() => import("./pages/commit.js").then((module) => module.CommitPage));
const Branches = later(() => import("./pages/branches.js").then((module) => module.Branches));
const Tags = later(() => import("./pages/tags.js").then((module) => module.Tags));
const Compare = later(() => import("./pages/compare.js").then((module) => module.Compare));
const Pulls = later(() => import("./pages/pulls.js").then((module) => module.Pulls));
const CreatePull = later(() => import("./pages/pulls.js").then((module) => module.CreatePull));
const PullPage = later(() => import("./pages/pulls.js").then((module) => module.PullPage));
const Actions = later(() => import("./pages/actions.js").then((module) => module.Actions));
const Run = later(() => import("./pages/actions.js").then((module) => module.Run));
const ImportPage = later(() => import("./pages/import.js").then((module) => module.ImportPage));
const Garbage = later(() => import("./pages/garbage.js").then((module) => module.Garbage));
const Settings = later(() => import("./pages/settings.js").then((module) => module.Settings));
const Repositories = later(() => import("./pages/repositories.js").then((module) => module.Repositories));
const Credentials = later(() => import("./pages/credentials.js").then((module) => module.Credentials));
const Users = later(() => import("./pages/users.js").then((module) => module.Users));
const UserPage = later(() => import("./pages/users.js").then((module) => module.UserPage));
const Groups = later(() => import("./pages/groups.js").then((module) => module.Groups));
const GroupPage = later(() => import("./pages/groups.js").then((module) => module.GroupPage));
const Policies = later(() => import("./pages/policies.js").then((module) => module.Policies));
const PolicyPage = later(() => import("./pages/policies.js").then((module) => module.PolicyPage));
const About = later(() => import("./pages/about.js").then((module) => module.About));
const Login = later(() => import("./pages/login.js").then((module) => module.Login));
const Setup = later(() => import("./pages/login.js").then((module) => module.Setup));

/** Pages of a repository: path, name, icon, feature. Pages without a name have no link. */
/** @type {[string, any, string?, string?, string?][]} */
const REPOSITORY_PAGES = [
  ["objects", Objects, "Objects", "folder"],
  ["changes", Changes, "Uncommitted", "changes"],
  ["commits", Commits, "Commits", "commit"],
  ["branches", Branches, "Branches", "branch"],
  ["tags", Tags, "Tags", "tag"],
  ["compare", Compare, "Compare", "compare"],
  ["pulls", Pulls, "Pull requests", "pull", "pulls"],
  ["actions", Actions, "Actions", "actions", "actions"],
  ["import", ImportPage, "Import", "import", "import"],
  ["settings/retention", Garbage, "Garbage", "garbage"],
  ["settings", Settings, "Settings", "settings"],
  ["object", ObjectPage],
  ["commits/{commit}", CommitPage],
  ["pulls/create", CreatePull],
  ["pulls/{pull}", PullPage],
  ["actions/{run}", Run],
  ["settings/{part}", Settings],
];

const ADMIN_PAGES = [
  ["/auth/credentials", "My keys", "key"],
  ["/auth/users", "Users", "user"],
  ["/auth/groups", "Groups", "group"],
  ["/auth/policies", "Policies", "policy"],
  ["/about", "About", "info"],
];

/** @type {[string, any][]} */
const TABLE = [
  ...REPOSITORY_PAGES.map(
    ([address, page]) => /** @type {[string, any]} */ ([`/repositories/{repository}/${address}`, inFrame(page)]),
  ),
  ["/repositories/{repository}", ({ parts }) => redirect(inRepository(parts.repository, "objects"))],
  ["/repositories", alone(Repositories)],
  ["/", alone(Repositories)],
  ["/auth/credentials", administered(Credentials)],
  ["/auth/users", administered(Users)],
  ["/auth/users/{user}", administered(UserPage)],
  ["/auth/users/{user}/{part}", administered(UserPage)],
  ["/auth/users/{user}/{part}/{more}", administered(UserPage)],
  ["/auth/groups", administered(Groups)],
  ["/auth/groups/{group}", administered(GroupPage)],
  ["/auth/groups/{group}/{part}", administered(GroupPage)],
  ["/auth/policies", administered(Policies)],
  ["/auth/policies/{policy}", administered(PolicyPage)],
  ["/auth", () => redirect("/auth/credentials")],
  ["/about", administered(About)],
];

/** @type {[string, any][]} */
const OPEN = [
  ["/auth/login", Login],
  ["/setup", Setup],
];

/** @param {string} address */
function redirect(address) {
  useEffect(() => go(address, { replace: true }), []);
  return null;
}

/**
 * Navigation beside a page; a scrolling row on narrow windows.
 * @param {{label: string, children?: any}} props
 */
function Rail({ label, children }) {
  const rail = useRef(/** @type {any} */ (null));
  useLayoutEffect(() => {
    const current = rail.current.querySelector("[aria-current]");
    if (current && rail.current.scrollWidth > rail.current.clientWidth) rail.current.scrollLeft = current.offsetLeft - 60;
  }, []);
  return html`<nav class="rail" aria-label=${label} ref=${rail}>${children}</nav>`;
}

/** @param {any} page */
function alone(page) {
  return (/** @type {any} */ props) => html`<div class="frame alone"><main id="main"><${Guarded} page=${page} ...${props} /></main></div>`;
}

/** @param {any} page */
function administered(page) {
  return (/** @type {any} */ props) => html`<div class="frame">
    <${Rail} label="Administration">${ADMIN_PAGES.map(
      ([address, name, icon]) => html`<${Link} key=${address} href=${address} aria-current=${here().path.startsWith(address) ? "page" : undefined}><${Icon} name=${icon} />${name}<//>`,
    )}<//>
    <main id="main"><${Guarded} page=${page} ...${props} /></main></div>`;
}

/** @param {any} page */
function inFrame(page) {
  return ({ parts, query }) => {
    const name = parts.repository;
    // Loaded in parallel with the page's content.
    const repository = useLoad((signal) => get(path`/repositories/${name}`, {}, signal), name);
    const ref = query.get("ref") ?? undefined;
    return html`<div class="frame">
      <${Rail} label="Repository">${REPOSITORY_PAGES.map(([address, , label, icon, feature]) => {
        if (!label || (feature && !hasFeature(feature))) return null;
        const isHere = here().path.replace(`/repositories/${encodeURIComponent(name)}/`, "").split("/");
        const isCurrent = address === "settings" ? isHere[0] === "settings" && isHere[1] !== "retention" : address === "settings/retention" ? isHere.join("/") === address : isHere[0] === address || (address === "objects" && isHere[0] === "object");
        const keepsRef = ["objects", "changes", "commits"].includes(address);
        return html`<${Link} key=${address} href=${inRepository(name, address, keepsRef ? { ref } : {})} aria-current=${isCurrent ? "page" : undefined}><${Icon} name=${icon} />${label}<//>`;
      })}<//>
      <main id="main">${repository.error?.status === 404
        ? html`<${Empty} icon="repository" title=${`Repository ${name} not found`}><p>It may be deleted, or you lack the permission to see it.</p><${Link} class="button" href="/repositories">All repositories<//><//>`
        : html`<${Guarded} page=${page} name=${name} repository=${repository} parts=${parts} query=${query} />`}</main>
    </div>`;
  };
}

/** A page, or its error. @param {{page: any, [more: string]: any}} props */
function Guarded({ page: Page, ...props }) {
  const [fault, reset] = useErrorBoundary();
  if (fault) return html`<${ErrorBox} error=${fault} retry=${reset} />`;
  return html`<${Page} ...${props} />`;
}

function Missing() {
  return html`<div class="frame alone"><main id="main"><${Empty} icon="search" title="Page not found">
    <p>No page at ${here().path}. Check the URL.</p><${Link} class="button" href="/repositories">All repositories<//><//></main></div>`;
}

function Notes() {
  const notes = useNotes();
  return html`<div class="notes" role="status" aria-live="polite">${notes.map(
    (note) => html`<div key=${note.id} class=${note.kind}><span class="grow">${note.text}</span>
      <button class="bare" aria-label="Dismiss" onClick=${() => dismiss(note.id)}><${Icon} name="close" /></button></div>`,
  )}</div>`;
}

const KEYS = [
  ["/", "search or filter this page"],
  ["?", "show this help"],
  ["g o", "objects"],
  ["g u", "uncommitted changes"],
  ["g c", "commits"],
  ["g b", "branches"],
  ["g t", "tags"],
  ["g d", "compare"],
  ["g s", "settings"],
  ["g r", "all repositories"],
  ["Esc", "close a dialog or menu"],
];
/** @type {Record<string, string>} */
const JUMPS = { o: "objects", u: "changes", c: "commits", b: "branches", t: "tags", d: "compare", s: "settings" };

/** @param {() => void} showHelp */
function useKeyboard(showHelp) {
  useEffect(() => {
    let before = "";
    const press = (/** @type {KeyboardEvent} */ event) => {
      const target = /** @type {HTMLElement} */ (event.target);
      // Focus stays in a closing dialog until the next frame.
      if (event.metaKey || event.ctrlKey || event.altKey || target.closest("input, textarea, select, dialog[open]")) return;
      const last = before;
      before = event.key;
      if (event.key === "?") return showHelp();
      if (event.key === "/") {
        const field = /** @type {HTMLInputElement | null} */ (document.querySelector("[data-search]"));
        if (!field) return;
        event.preventDefault();
        field.focus();
        field.select();
      } else if (last === "g" && event.key === "r") go("/repositories");
      else if (last === "g" && JUMPS[event.key]) {
        const name = match([["/repositories/{repository}/{page}", 1], ["/repositories/{repository}/{page}/{more}", 1]], here().path)?.parts.repository;
        if (name) go(inRepository(name, JUMPS[event.key]));
      }
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
}

/** @param {{repository?: string, onHelp: () => void}} props */
function Bar({ repository, onHelp }) {
  const user = useLoad((signal) => get("/user", {}, signal), "");
  return html`<header class="bar">
    <${Link} class="brand" href="/repositories" aria-label="Lakebed: all repositories"><img src=${new URL("./logo.svg", import.meta.url).pathname} alt="" /><span>Lakebed</span><//>
    <div class="trail">${repository
      ? html`<${Link} href=${inRepository(repository, "objects")}>${repository}<//>`
      : html`<${Link} href="/repositories">Repositories<//>`}</div>
    <button class="bare wide-only" onClick=${onHelp} aria-label="Keyboard shortcuts" title="Keyboard shortcuts"><kbd>?</kbd></button>
    <${Menu} kind="bare" title=${`Account: ${user.data?.user.id ?? ""}`} label=${html`<${Icon} name="user" /><span class="wide-only">${user.data?.user.id ?? ""}</span><${Icon} name="down" />`}>
      ${(/** @type {() => void} */ close) => html`
        ${user.data && html`<p>Signed in as <strong>${user.data.user.id}</strong></p>`}
        ${ADMIN_PAGES.map(([address, name, icon]) => html`<${Link} key=${address} href=${address} onClickCapture=${close}><${Icon} name=${icon} />${name}<//>`)}
        <a href="/logout"><${Icon} name="undo" />Log out</a>`}
    <//>
  </header>`;
}

function App() {
  const place = usePlace();
  const [help, setHelp] = useState(false);
  useKeyboard(() => setHelp(true));
  const open = match(OPEN, place.path);
  const found = match(TABLE, place.path);
  useEffect(() => {
    const parts = place.path.split("/").filter(Boolean).map(decode);
    document.title = [...parts.slice(1).reverse(), "Lakebed"].join(" · ");
  }, [place.path]);
  if (open) return html`<${open.page} key=${place.path} query=${place.query} /><${Notes} />`;
  const Page = found?.page ?? Missing;
  return html`<${Bar} repository=${found?.parts.repository} onHelp=${() => setHelp(true)} />
    <${Page} key=${place.path} parts=${found?.parts ?? {}} query=${place.query} />
    ${help && html`<${Dialog} title="Keyboard shortcuts" onClose=${() => setHelp(false)}><dl class="facts keys">${KEYS.map(
      ([key, what]) => [html`<dt key=${key}>${key.split(" ").map((each) => html`<kbd>${each}</kbd> `)}</dt>`, html`<dd>${what}</dd>`],
    )}</dl><//>`}
    <${Notes} />`;
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

whenSignedOut(async () => {
  if (match(OPEN, here().path)) return;
  const next = here().key;
  const state = await get("/setup_lakefs").catch(() => null);
  if (match(OPEN, here().path)) return;
  go(state?.state === "not_initialized" ? "/setup" : to("/auth/login", { next: next === "/" ? "" : next }), { replace: true });
});
render(html`<${App} />`, /** @type {Element} */ (document.getElementById("app")));
