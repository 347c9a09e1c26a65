// Formats of numbers, times and ids.

const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];

/** @param {number | undefined | null} bytes */
export function size(bytes) {
  if (bytes === undefined || bytes === null) return "";
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 ? 0 : 1;
  return `${value.toFixed(digits)} ${UNITS[unit]}`;
}

/** @param {number} value */
export function count(value) {
  return value.toLocaleString("en-US");
}

/** @param {number} value @param {string} one @param {string} [many] */
export function counted(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** @type {[number, string][]} */
const STEPS = [
  [60, "second"],
  [60, "minute"],
  [24, "hour"],
  [30.4, "day"],
  [12, "month"],
  [Infinity, "year"],
];

/**
 * Time since a moment.
 * @param {number} moment in seconds since 1970
 * @param {number} [now]
 */
export function ago(moment, now = Date.now() / 1000) {
  let value = now - moment;
  if (value < 0) return exact(moment);
  if (value < 10) return "just now";
  for (const [limit, unit] of STEPS) {
    if (value < limit) return `${counted(Math.floor(value), unit)} ago`;
    value /= limit;
  }
  return exact(moment);
}

/** @param {number} moment in seconds since 1970 */
export function exact(moment) {
  return `${new Date(moment * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** @param {string} id */
export function short(id) {
  return id.length > 16 ? id.slice(0, 10) : id;
}

/** @param {string} path */
export function nameOf(path) {
  const parts = path.split("/").filter(Boolean);
  return parts.length ? parts[parts.length - 1] : path;
}

/** @param {string} path */
export function folderOf(path) {
  return path.slice(0, path.lastIndexOf("/") + 1);
}

/** @param {string} path */
export function extensionOf(path) {
  const name = nameOf(path);
  const at = name.lastIndexOf(".");
  return at > 0 ? name.slice(at + 1).toLowerCase() : "";
}
