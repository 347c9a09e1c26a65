// The current location. URLs are those of lakeFS's pages, so links of its tools work.

import { html, useLayoutEffect, useState } from "./vendor/preact-htm.js";

/** @typedef {{path: string, query: URLSearchParams, key: string}} Place */

/** @type {Set<() => void>} */
const listeners = new Set();

/** @returns {Place} */
export function here() {
  const { pathname, search } = window.location;
  return { path: pathname, query: new URLSearchParams(search), key: pathname + search };
}

/**
 * Navigate to a URL of the app.
 * @param {string} address
 * @param {{replace?: boolean}} [options]
 */
export function go(address, { replace = false } = {}) {
  if (replace) window.history.replaceState(null, "", address);
  else window.history.pushState(null, "", address);
  if (!replace) window.scrollTo(0, 0);
  for (const each of listeners) each();
}

/** @returns {Place} */
export function usePlace() {
  const [place, setPlace] = useState(here);
  // Before the effects of pages: these may navigate immediately.
  useLayoutEffect(() => {
    const update = () => setPlace(here());
    listeners.add(update);
    window.addEventListener("popstate", update);
    return () => {
      listeners.delete(update);
      window.removeEventListener("popstate", update);
    };
  }, []);
  return place;
}

/**
 * A URL with a query, without empty parameters.
 * @param {string} path
 * @param {Record<string, string | undefined | null>} [query]
 */
export function to(path, query = {}) {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) given.set(name, value);
  const text = given.toString().replaceAll("%2F", "/");
  return path + (text ? `?${text}` : "");
}

/** @param {string} repository @param {string} page @param {Record<string, string | undefined | null>} [query] */
export function inRepository(repository, page, query) {
  return to(`/repositories/${encodeURIComponent(repository)}/${page}`, query);
}

/**
 * A link inside the app. The browser handles clicks with a modifier key.
 * @param {{href: string, children?: any, [more: string]: any}} props
 */
export function Link({ href, children, ...more }) {
  /** @param {MouseEvent} event */
  const follow = (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(href);
  };
  return html`<a href=${href} onClick=${follow} ...${more}>${children}</a>`;
}

/**
 * Find the page of a path. `{name}` in a pattern matches one part.
 * @template T
 * @param {[string, T][]} table
 * @param {string} path
 * @returns {{page: T, parts: Record<string, string>} | null}
 */
export function match(table, path) {
  const given = path.split("/").filter(Boolean);
  for (const [pattern, page] of table) {
    const parts = matchOne(pattern.split("/").filter(Boolean), given);
    if (parts) return { page, parts };
  }
  return null;
}

/** @param {string[]} pattern @param {string[]} given */
function matchOne(pattern, given) {
  /** @type {Record<string, string>} */
  const parts = {};
  if (pattern.length !== given.length) return null;
  for (const [at, text] of pattern.entries()) {
    if (!text.startsWith("{")) {
      if (text !== given[at]) return null;
      continue;
    }
    try {
      parts[text.slice(1, -1)] = decodeURIComponent(given[at]);
    } catch {
      return null;
    }
  }
  return parts;
}
