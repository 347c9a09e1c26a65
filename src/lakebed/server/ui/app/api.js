// Client of the REST API. The browser sends the login cookie; scripts never see or store a token.

/** @typedef {Record<string, string | number | boolean | string[] | undefined | null>} Query */
/**
 * @template T
 * @typedef {{results: T[], pagination: {has_more: boolean, next_offset: string}}} Page
 */
/** @typedef {{id: string, commit_id: string}} Ref */
/** @typedef {{id: string, creation_date: number, default_branch: string, storage_namespace: string, read_only: boolean}} Repository */
/** @typedef {{id: string, parents: string[], committer: string, message: string, creation_date: number, meta_range_id: string, metadata: Record<string, string>, generation: number, refused?: string}} Commit */
/** @typedef {{path: string, path_type: string, physical_address: string, checksum: string, mtime: number, size_bytes?: number, metadata?: Record<string, string>, content_type?: string}} ObjectStats */
/** @typedef {{type: string, path: string, path_type: string, size_bytes?: number}} Difference */

const BASE = "/api/v1";

/** An error answer of the server; its text is the server's own, with the value and what to do. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {{message?: string, kind?: string, detail?: string, [more: string]: any}} body
   */
  constructor(status, body) {
    super(body.detail || body.message || `the server answered ${status}`);
    this.status = status;
    this.kind = body.kind ?? "";
    this.body = body;
  }
}

/** @type {() => void} */
let onSignedOut = () => {};
/** @param {() => void} action Called when the login has expired. */
export function whenSignedOut(action) {
  onSignedOut = action;
}

/**
 * The path of an operation, with escaped values.
 * @param {TemplateStringsArray} texts
 * @param {string[]} values
 */
export function path(texts, ...values) {
  return texts.reduce((made, text, at) => made + encodeURIComponent(values[at - 1]) + text);
}

/**
 * @param {string} where
 * @param {Query} [query]
 */
export function url(where, query = {}) {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (Array.isArray(value)) for (const each of value) given.append(name, each);
    else if (value !== undefined && value !== null && value !== "") given.set(name, String(value));
  }
  const text = given.toString();
  return BASE + where + (text ? `?${text}` : "");
}

/**
 * Call an operation.
 * @param {string} method
 * @param {string} where
 * @param {{query?: Query, body?: any, signal?: AbortSignal, headers?: Record<string, string>}} [options]
 * @returns {Promise<any>} the JSON of the answer, or its text
 */
export async function call(method, where, { query, body, signal, headers = {} } = {}) {
  /** @type {Record<string, string>} */
  const sent = body === undefined ? {} : { "Content-Type": "application/json" };
  /** @type {Response} */
  let answer;
  try {
    answer = await fetch(url(where, query), {
      method,
      signal,
      headers: { ...sent, ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, { message: "Cannot reach the server: check your connection and the server, then try again", kind: "unreachable" });
  }
  return read(answer);
}

/** @param {Response} answer */
async function read(answer) {
  const text = await answer.text();
  const isJSON = (answer.headers.get("Content-Type") ?? "").startsWith("application/json");
  const value = isJSON && text ? JSON.parse(text) : text;
  if (answer.ok) return value;
  const error = new ApiError(answer.status, isJSON ? value : { message: text });
  if (error.kind === "authentication_failed") onSignedOut();
  throw error;
}

/** @type {(where: string, query?: Query, signal?: AbortSignal) => Promise<any>} */
export const get = (where, query, signal) => call("GET", where, { query, signal });
/** @type {(where: string, body?: any, query?: Query) => Promise<any>} */
export const post = (where, body, query) => call("POST", where, { body, query });
/** @type {(where: string, body?: any, query?: Query) => Promise<any>} */
export const put = (where, body, query) => call("PUT", where, { body, query });
/** @type {(where: string, query?: Query, body?: any) => Promise<any>} */
export const remove = (where, query, body) => call("DELETE", where, { query, body });

/**
 * Get all pages of a list, up to a limit.
 * @param {string} where
 * @param {Query} [query]
 * @param {number} [most]
 * @returns {Promise<any[]>}
 */
export async function getAll(where, query = {}, most = 2000) {
  const found = [];
  let after = "";
  for (;;) {
    const page = await get(where, { ...query, amount: 1000, after });
    found.push(...page.results);
    if (!page.pagination.has_more || found.length >= most) return found;
    after = page.pagination.next_offset;
  }
}

/**
 * Upload a file. `fetch` cannot report progress.
 * @param {string} where
 * @param {Query} query
 * @param {File} file
 * @param {(share: number) => void} onProgress
 * @returns {{done: Promise<void>, cancel: () => void}}
 */
export function upload(where, query, file, onProgress) {
  const request = new XMLHttpRequest();
  const done = new Promise((resolve, reject) => {
    request.open("POST", url(where, query));
    request.upload.onprogress = (event) => onProgress(event.loaded / (event.total || 1));
    request.onload = () => {
      if (request.status < 300) return resolve(undefined);
      let body = { message: request.responseText };
      try {
        body = JSON.parse(request.responseText);
      } catch {
        // Shown as text.
      }
      return reject(new ApiError(request.status, body));
    };
    request.onerror = () => reject(new ApiError(0, { message: "Connection lost: check your connection and the server, then try again" }));
    request.onabort = () => reject(new ApiError(0, { message: "cancelled", kind: "cancelled" }));
    request.send(file.slice()); // without the browser's type: the server knows more types
  });
  return { done, cancel: () => request.abort() };
}

/**
 * The text of an error, with a capital.
 * @param {any} error
 * @returns {string}
 */
export function explain(error) {
  const text = error instanceof ApiError ? error.message : `error in this page: ${error?.message ?? error}`;
  return text.charAt(0).toUpperCase() + text.slice(1);
}
