// Layout of the commit graph: one row per commit, newest first.

/** @typedef {{lane: number, lines: {from: number, to: number, half: "top" | "bottom", colour: number}[], width: number}} Row */

/**
 * @param {{id: string, parents: string[]}[]} commits children before parents
 * @returns {Row[]}
 */
export function layOut(commits) {
/** The next commit of each lane. @type {(string | null)[]} */
  let lanes = [];
  return commits.map((commit) => {
    const before = lanes;
    let lane = before.indexOf(commit.id);
    if (lane < 0) lane = free(before);
    const after = before.map((each) => (each === commit.id ? null : each));
    while (after.length <= lane) after.push(null);
    /** @type {Row["lines"]} */
    const lines = [];
    for (const [at, each] of before.entries()) {
      if (each === commit.id) lines.push({ from: at, to: lane, half: "top", colour: at });
      else if (each !== null) lines.push({ from: at, to: at, half: "top", colour: at });
    }
    for (const [at, each] of after.entries()) if (each !== null) lines.push({ from: at, to: at, half: "bottom", colour: at });
    for (const [number, parent] of commit.parents.entries()) {
      let to = after.indexOf(parent);
      if (to < 0) {
        to = number === 0 ? lane : free(after);
        if (to === after.length) after.push(null);
        after[to] = parent;
      }
      lines.push({ from: lane, to, half: "bottom", colour: number === 0 ? lane : to });
    }
    lanes = after;
    while (lanes.length && lanes[lanes.length - 1] === null) lanes = lanes.slice(0, -1);
    return { lane, lines, width: Math.max(before.length, after.length, lane + 1) };
  });
}

/** @param {(string | null)[]} lanes */
function free(lanes) {
  const at = lanes.indexOf(null);
  return at < 0 ? lanes.length : at;
}
