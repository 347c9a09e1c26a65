// Components shared by pages.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact-htm.js";
import { explain } from "./api.js";
import { ago, exact, short } from "./format.js";
import { Icon } from "./icons.js";
import { notify } from "./state.js";

/** @param {{at: number}} props A moment in seconds since 1970. */
export function Time({ at }) {
  return html`<time datetime=${new Date(at * 1000).toISOString()} title=${exact(at)}>${ago(at)}</time>`;
}

/** @param {string} text */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    notify("Copied");
  } catch {
    // Browsers allow clipboard access only over TLS and on localhost.
    notify("Cannot access the clipboard: select the text and copy it manually", "failed");
  }
}

/** @param {{text: string, what: string}} props */
export function Copy({ text, what }) {
  return html`<button class="bare" title=${`Copy ${what}`} aria-label=${`Copy ${what}`}
    onClick=${() => copyText(text)}><${Icon} name="copy" /></button>`;
}

/** @param {{id: string, what?: string, href?: any}} props */
export function Id({ id, what = "id", href }) {
  return html`<span class="id">${href ? href(short(id)) : html`<code title=${id}>${short(id)}</code>`}
    <${Copy} text=${id} what=${what} /></span>`;
}

/** @param {{error: any, retry?: () => void}} props */
export function ErrorBox({ error, retry }) {
  if (!error) return null;
  return html`<div class="notice failed" role="alert">
    <${Icon} name="warning" />
    <div><p>${explain(error)}</p>
      ${retry && html`<button onClick=${retry}>Try again</button>`}</div>
  </div>`;
}

/** @param {{icon: string, title: string, children?: any}} props */
export function Empty({ icon, title, children }) {
  return html`<div class="empty"><${Icon} name=${icon} /><h2>${title}</h2><div>${children}</div></div>`;
}

/** @param {{rows?: number}} props */
export function Loading({ rows = 5 }) {
  return html`<div class="loading" role="status" aria-label="Loading">
    ${Array.from({ length: rows }, (_, at) => html`<span key=${at} />`)}</div>`;
}

/**
 * A loaded value, its error, or a placeholder while loading.
 * @param {{of: {data: any, error: any, loading: boolean, reload: () => void}, children: (data: any) => any, rows?: number}} props
 */
export function Shown({ of, children, rows }) {
  if (of.error) return html`<${ErrorBox} error=${of.error} retry=${of.reload} />`;
  if (of.data === undefined) return html`<${Loading} rows=${rows} />`;
  return children(of.data);
}

/** @param {{title: any, children?: any, note?: any}} props */
export function Heading({ title, children, note }) {
  return html`<header class="heading"><div><h1>${title}</h1>${note && html`<p>${note}</p>`}</div>
    <div class="tools">${children}</div></header>`;
}

/** @param {{of: {hasMore: boolean, loadingMore: boolean, loadMore: () => void}, what?: string}} props */
export function More({ of, what = "more" }) {
  if (!of.hasMore) return null;
  return html`<div class="more"><button disabled=${of.loadingMore} onClick=${of.loadMore}>
    ${of.loadingMore ? "Loading…" : `Show ${what}`}</button></div>`;
}

/**
 * A button; `why` is the reason if it is disabled.
 * @param {{children?: any, icon?: string, why?: string, kind?: string, disabled?: boolean, [more: string]: any}} props
 */
export function Button({ children, icon, why, kind = "", disabled, ...more }) {
  return html`<button class=${kind} type="button" title=${why || undefined} disabled=${disabled || Boolean(why)} ...${more}>
    ${icon && html`<${Icon} name=${icon} />`}${children}</button>`;
}

let lastField = 0;

/**
 * A labelled field.
 * @param {{label: string, value: string, onInput: (value: string) => void, hint?: any, error?: string, multiline?: boolean, options?: [string, string][], [more: string]: any}} props
 */
export function Field({ label, value, onInput, hint, error, multiline, options, ...more }) {
  const [id] = useState(() => `field-${(lastField += 1)}`);
  const given = {
    id,
    value,
    "aria-describedby": hint || error ? `${id}-hint` : undefined,
    "aria-invalid": error ? "true" : undefined,
    onInput: (/** @type {any} */ event) => onInput(event.target.value),
    ...more,
  };
  let control = html`<input autocomplete="off" spellcheck=${false} ...${given} />`;
  if (multiline) control = html`<textarea ...${given} />`;
  if (options)
    control = html`<select ...${given}>${options.map(
      ([name, text]) => html`<option key=${name} value=${name} selected=${name === value}>${text}</option>`,
    )}</select>`;
  return html`<div class="field"><label for=${id}>${label}</label>${control}
    ${(hint || error) && html`<p id=${`${id}-hint`} class=${error ? "wrong" : "hint"}>${error || hint}</p>`}</div>`;
}

/** @param {{label: any, value: boolean, onInput: (value: boolean) => void, disabled?: boolean}} props */
export function Check({ label, value, onInput, disabled }) {
  return html`<label class="check"><input type="checkbox" checked=${value} disabled=${disabled}
    onInput=${(/** @type {any} */ event) => onInput(event.target.checked)} /> <span>${label}</span></label>`;
}

/** @typedef {[string, string]} Pair */

/** @param {{label: string, pairs: Pair[], onInput: (pairs: Pair[]) => void}} props */
export function Pairs({ label, pairs, onInput }) {
  const set = (/** @type {number} */ at, /** @type {number} */ part, /** @type {string} */ text) =>
    onInput(pairs.map((pair, each) => (each === at ? /** @type {Pair} */ (part ? [pair[0], text] : [text, pair[1]]) : pair)));
  return html`<fieldset class="pairs"><legend>${label}</legend>
    ${pairs.map(
      ([name, value], at) => html`<div key=${at}>
        <input aria-label="Name" placeholder="name" value=${name} onInput=${(/** @type {any} */ event) => set(at, 0, event.target.value)} />
        <input aria-label="Value" placeholder="value" value=${value} onInput=${(/** @type {any} */ event) => set(at, 1, event.target.value)} />
        <button type="button" class="bare" aria-label="Remove" onClick=${() => onInput(pairs.filter((_, each) => each !== at))}><${Icon} name="close" /></button>
      </div>`,
    )}
    <button type="button" class="quiet" onClick=${() => onInput([...pairs, ["", ""]])}><${Icon} name="plus" />Add metadata</button>
  </fieldset>`;
}

/** @param {Pair[]} pairs */
export const asRecord = (pairs) => Object.fromEntries(pairs.filter(([name]) => name));

/**
 * A modal dialog, closed by Escape or its button.
 * @param {{title: string, onClose: () => void, children?: any, wide?: boolean}} props
 */
export function Dialog({ title, onClose, children, wide }) {
  const dialog = useRef(/** @type {any} */ (null));
  useLayoutEffect(() => {
    dialog.current.showModal();
    dialog.current.querySelector("[data-focus], input, textarea, select")?.focus();
  }, []);
  return html`<dialog ref=${dialog} class=${wide ? "wide" : ""} aria-label=${title} onClose=${onClose}
    onClick=${(/** @type {any} */ event) => event.target === dialog.current && dialog.current.close()}>
    <div class="sheet">
      <header><h2>${title}</h2><button class="bare" aria-label="Close" onClick=${() => dialog.current.close()}><${Icon} name="close" /></button></header>
      ${children}
    </div></dialog>`;
}

/**
 * A dialog with a form.
 * @param {{title: string, action: {busy: boolean, error: any}, onSubmit: () => void, onClose: () => void, label: string, kind?: string, why?: string, children?: any, wide?: boolean}} props
 */
export function Form({ title, action, onSubmit, onClose, label, kind = "primary", why, children, wide }) {
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!why && !action.busy) onSubmit();
  };
  return html`<${Dialog} title=${title} onClose=${onClose} wide=${wide}>
    <form onSubmit=${submit}>
      ${children}
      <${ErrorBox} error=${action.error} />
      <footer>${why && html`<span class="hint">${why}</span>`}
        <button type="button" onClick=${onClose}>Cancel</button>
        <button type="submit" class=${kind} disabled=${action.busy || Boolean(why)}>${action.busy ? "Working…" : label}</button></footer>
    </form><//>`;
}

/**
 * A dropdown menu.
 * @param {{label: any, title?: string, children: (close: () => void) => any, kind?: string}} props
 */
export function Menu({ label, title, children, kind = "" }) {
  const [open, setOpen] = useState(false);
  const box = useRef(/** @type {any} */ (null));
  useEffect(() => {
    if (!open) return undefined;
    const away = (/** @type {any} */ event) => {
      if (event.type === "keydown" ? event.key === "Escape" : !box.current?.contains(event.target)) setOpen(false);
    };
    document.addEventListener("pointerdown", away);
    document.addEventListener("keydown", away);
    return () => {
      document.removeEventListener("pointerdown", away);
      document.removeEventListener("keydown", away);
    };
  }, [open]);
  return html`<div class="menu" ref=${box}>
    <button type="button" class=${kind} aria-haspopup="true" aria-expanded=${open} aria-label=${title} title=${title} onClick=${() => setOpen(!open)}>${label}</button>
    ${open && html`<div class="choices">${children(() => setOpen(false))}</div>`}
  </div>`;
}

/** @param {{value: string, onInput: (value: string) => void, label: string, search?: boolean}} props */
export function Filter({ value, onInput, label, search = true }) {
  return html`<label class="filter"><${Icon} name="search" /><span class="unseen">${label}</span>
    <input type="search" placeholder=${label} value=${value} data-search=${search || undefined}
      onInput=${(/** @type {any} */ event) => onInput(event.target.value)} /></label>`;
}

/** A list of names and values. @param {{of: Record<string, any>, across?: boolean}} props */
export function Facts({ of, across }) {
  return html`<dl class=${across ? "facts across" : "facts"}>${Object.entries(of)
    .filter(([, value]) => value !== undefined && value !== null && value !== "")
    .map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** @param {{text: string, what?: string}} props */
export function Code({ text, what = "code" }) {
  return html`<div class="code"><pre>${text}</pre><${Copy} text=${text} what=${what} /></div>`;
}

/** @param {{tone?: string, children?: any}} props */
export function Badge({ tone = "", children }) {
  return html`<span class=${`badge ${tone}`}>${children}</span>`;
}
