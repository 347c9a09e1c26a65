// Hooks for data of the server, and state shared by the whole app.

import { useCallback, useEffect, useRef, useState } from "./vendor/preact-htm.js";
import { ApiError, explain, get, path } from "./api.js";

/**
 * @template T
 * @typedef {{data: T | undefined, error: any, loading: boolean, reload: () => void}} Loaded
 */

/**
 * Load a value, again when the key changes. While reloading the same key, the old value is shown.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} load
 * @param {string} key
 * @returns {Loaded<T>}
 */
export function useLoad(load, key) {
  const [state, setState] = useState({ key, data: /** @type {any} */ (undefined), error: null, loading: true });
  const [round, setRound] = useState(0);
  useEffect(() => {
    const controller = new AbortController();
    setState((before) => ({
      key,
      data: before.key === key ? before.data : undefined,
      error: null,
      loading: true,
    }));
    load(controller.signal).then(
      (data) => controller.signal.aborted || setState({ key, data, error: null, loading: false }),
      (error) =>
        controller.signal.aborted || setState({ key, data: undefined, error, loading: false }),
    );
    return () => controller.abort();
  }, [key, round]);
  const reload = useCallback(() => setRound((value) => value + 1), []);
  // The first render for a new key must not show the old value.
  if (state.key !== key) return { data: undefined, error: null, loading: true, reload };
  return { data: state.data, error: state.error, loading: state.loading, reload };
}

/**
 * A list, loaded page by page.
 * @param {string} where
 * @param {import("./api.js").Query} query
 * @param {number} [amount]
 */
export function useList(where, query, amount = 100) {
  const key = where + JSON.stringify(query);
  const first = useLoad((signal) => get(where, { ...query, amount }, signal), key);
  const [more, setMore] = useState({ key, page: /** @type {any} */ (null), items: /** @type {any[]} */ ([]), busy: false, error: /** @type {any} */ (null) });
  const rest = more.key === key && more.page === first.data ? more : { items: [], busy: false, error: null, last: null };
  const last = /** @type {any} */ (rest).last ?? first.data;
  const loadMore = async () => {
    setMore({ ...more, key, page: first.data, items: rest.items, busy: true, error: null });
    try {
      const page = await get(where, { ...query, amount, after: last.pagination.next_offset });
      setMore(/** @type {any} */ ({ key, page: first.data, items: [...rest.items, ...page.results], busy: false, error: null, last: page }));
    } catch (error) {
      setMore(/** @type {any} */ ({ key, page: first.data, items: rest.items, busy: false, error, last }));
    }
  };
  return {
    ...first,
    error: first.error ?? rest.error,
    items: /** @type {any[]} */ (first.data ? [...first.data.results, ...rest.items] : []),
    hasMore: Boolean(last?.pagination.has_more),
    loadingMore: rest.busy,
    loadMore,
  };
}

/**
 * An action with its progress and error.
 * @returns {{busy: boolean, error: any, clear: () => void, run: (work: () => Promise<any>) => Promise<boolean>}}
 */
export function useAction() {
  const [state, setState] = useState({ busy: false, error: /** @type {any} */ (null) });
  const there = useRef(true);
  useEffect(() => () => void (there.current = false), []);
  const run = async (/** @type {() => Promise<any>} */ work) => {
    setState({ busy: true, error: null });
    try {
      await work();
      if (there.current) setState({ busy: false, error: null });
      return true;
    } catch (error) {
      if (there.current) setState({ busy: false, error });
      return false;
    }
  };
  return { ...state, run, clear: () => setState({ busy: false, error: null }) };
}

/**
 * Missing permissions: a sentence for each action, empty if permitted or not known yet. Covers only
 * resources known in advance.
 * @param {Record<string, [string, string]>} needs the required action and resource
 * @returns {Record<string, string>}
 */
export function useMissing(needs) {
  const asked = Object.values(needs).map(([action, resource]) => `${action} arn:lakefs:${action.startsWith("auth:") ? "auth" : "fs"}:::${resource}`);
  const found = useLoad((signal) => (asked.length ? get("/user", { may: asked }, signal).catch(() => null) : Promise.resolve(null)), asked.join("\n"));
  const denied = found.data?.denied ?? [];
  return Object.fromEntries(Object.entries(needs).map(([name, [action]], at) => [name, denied.includes(asked[at]) ? `Requires the permission ${action}: ask an administrator` : ""]));
}

/** Whether a pattern of a protection rule covers a branch. @param {string} pattern @param {string} branch */
export function covers(pattern, branch) {
  const text = pattern.replace(/[.+^${}()|\\]/g, "\\$&").replaceAll("[!", "[^").replaceAll("*", ".*").replaceAll("?", ".");
  try {
    return new RegExp(`^${text}$`).test(branch);
  } catch {
    return false;
  }
}

/** The protection rules of a repository; none if the user may not read them. @param {string} name */
export const useRules = (name) => useLoad((signal) => get(path`/repositories/${name}/settings/branch_protection`, {}, signal).catch(() => []), name);

/** Why a branch refuses direct changes: empty if it accepts them, or not known yet. @param {string} name @param {string} branch @param {boolean | undefined} readOnly */
export function useRefusal(name, branch, readOnly) {
  const rules = useRules(name);
  if (readOnly) return "This repository is read-only";
  return rules.data?.some((/** @type {any} */ rule) => covers(rule.pattern, branch)) ? `Branch ${branch} is protected: change another branch and merge` : "";
}

// Notifications at the edge of the window.

/** @type {Set<(notes: Note[]) => void>} */
const readers = new Set();
/** @typedef {{id: number, text: string, kind: "done" | "failed"}} Note */
/** @type {Note[]} */
let notes = [];
let lastNote = 0;

/** @param {string} text @param {"done" | "failed"} [kind] */
export function notify(text, kind = "done") {
  lastNote += 1;
  const id = lastNote;
  notes = [...notes.slice(-3), { id, text, kind }];
  for (const each of readers) each(notes);
  setTimeout(() => dismiss(id), kind === "done" ? 5000 : 12000);
}

/** @param {any} error */
export function notifyError(error) {
  if (error instanceof ApiError && error.kind === "cancelled") return;
  notify(explain(error), "failed");
}

/** @param {number} id */
export function dismiss(id) {
  notes = notes.filter((each) => each.id !== id);
  for (const each of readers) each(notes);
}

/** @returns {Note[]} */
export function useNotes() {
  const [shown, setShown] = useState(notes);
  useEffect(() => {
    readers.add(setShown);
    return () => void readers.delete(setShown);
  }, []);
  return shown;
}

/** @param {string} name */
function meta(name) {
  const found = document.querySelector(`meta[name="${name}"]`);
  return found?.getAttribute("content") ?? "";
}

export const VERSION = meta("lakebed-version");
const FEATURES = new Set(meta("lakebed-features").split(" "));
/** @param {string} name */
export const hasFeature = (name) => FEATURES.has(name);

// Recent choices of the user. Never keys or tokens.

/** @param {string} name @returns {string[]} */
export function remembered(name) {
  try {
    const found = JSON.parse(window.localStorage.getItem(`lakebed.${name}`) ?? "[]");
    return Array.isArray(found) ? found.filter((each) => typeof each === "string") : [];
  } catch {
    return [];
  }
}

/** @param {string} name @param {string} value @param {number} [most] */
export function remember(name, value, most = 5) {
  const kept = [value, ...remembered(name).filter((each) => each !== value)].slice(0, most);
  try {
    window.localStorage.setItem(`lakebed.${name}`, JSON.stringify(kept));
  } catch {
    // Optional: the browser may forbid storage.
  }
}
