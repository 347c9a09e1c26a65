// What people do on the pages: the main path of each, and mistakes that are answered with advice.

import { strict as assert } from "node:assert";
import { PAGES, settled } from "./pages.mjs";

const button = (page, name) => page.getByRole("button", { name, exact: true });
const field = (page, label) => page.getByLabel(label, { exact: true });
const says = (page, text) => page.getByText(text).first().waitFor();
const dialog = (page) => page.getByRole("dialog");

/** Compare the rows of the first file that has some. A server with much to do may want to be asked again. */
async function compareRows(page) {
  await button(page, "Compare rows").first().click();
  const rows = page.getByRole("region", { name: "Changed rows" });
  const again = button(page, "Try again");
  for (let tries = 0; tries < 5; tries += 1) {
    await rows.or(again).first().waitFor();
    if (await rows.isVisible()) return;
    await again.click();
  }
}

/** What axe finds serious on a page as it is now. */
async function faultsOf(page, axe, name, options = {}) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate((given) => window.axe.run(document, given), { resultTypes: ["violations"], ...options });
  return violations
    .filter((each) => ["serious", "critical"].includes(each.impact))
    .map((each) => `${name}: ${each.id}: ${each.nodes.map((node) => `${node.target} ${node.any[0]?.message ?? ""}`).slice(0, 3).join("; ")}`);
}

/** A new server: its first administrator, and keys that are shown once. */
export async function setUp({ page, lake, axe }) {
  await page.goto(lake.endpoint);
  await page.waitForURL(/\/setup$/);
  await field(page, "Administrator name").waitFor();
  assert.deepEqual(await faultsOf(page, axe, "set-up"), []);
  await field(page, "Administrator name").fill("");
  assert(await button(page, "Set up").isDisabled());
  await field(page, "Administrator name").fill("admin");
  await button(page, "Set up").click();
  await says(page, "Save these keys");
  assert.deepEqual(await faultsOf(page, axe, "keys"), []);
  const [, key, secret] = (await page.locator("pre").innerText()).match(/access_key_id: (\S+)\s+secret_access_key: (\S+)/);
  assert(await button(page, "Continue").isDisabled());
  await page.getByLabel("I have saved them").check();
  await button(page, "Continue").click();
  await says(page, "No repositories yet");
  await page.goto(`${lake.endpoint}/setup`);
  await says(page, "This server is set up");
  return { key, secret };
}

export async function logInAndOut({ page, context, lake }) {
  await page.goto(`${lake.endpoint}/repositories/${lake.repository}/branches`);
  await page.waitForURL(/auth\/login\?next=/);
  await field(page, "Access key ID").fill(lake.key);
  await field(page, "Secret access key").fill("wrong");
  await button(page, "Log in").click();
  await says(page, "Authentication failed: check the access key id");
  await field(page, "Secret access key").fill(lake.secret);
  await button(page, "Log in").click();
  await page.waitForURL((url) => url.pathname.endsWith("/branches")); // the login names it behind its own
  const cookies = await context.cookies();
  assert.deepEqual(cookies.map(({ name, httpOnly, sameSite }) => ({ name, httpOnly, sameSite })), [{ name: "internal_auth_session", httpOnly: true, sameSite: "Strict" }]);
  const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]));
  assert(!kept.includes(cookies[0].value) && !kept.includes(lake.secret), kept);
  await page.getByRole("button", { name: "Account" }).click();
  await page.getByRole("link", { name: "Log out" }).click();
  await page.waitForURL(/auth\/login/);
  // A link of somebody else must not lead away after the login.
  await page.goto(`${lake.endpoint}/auth/login?next=//evil.example/`);
  await field(page, "Access key ID").fill(lake.key);
  await field(page, "Secret access key").fill(lake.secret);
  await button(page, "Log in").click();
  await page.waitForURL(`${lake.endpoint}/repositories`);
}

export async function repositories({ page, lake }) {
  await page.goto(`${lake.endpoint}/repositories`);
  await page.getByLabel("Search repositories").fill("nothing-like-it");
  await says(page, "No match for");
  await button(page, "Show all").click();
  await page.getByRole("link", { name: lake.repository, exact: true }).first().waitFor();
  await button(page, "Create repository").click();
  await field(page, "Name").fill("Not Good");
  await says(page, "3 to 63 characters of a-z");
  assert(await button(page, "Create").isDisabled());
  await field(page, "Name").fill(lake.repository);
  await field(page, "Storage namespace").fill("s3://elsewhere/x");
  await says(page, "start with local://");
  await field(page, "Storage namespace").fill("local://pages/made-here");
  await button(page, "Create").click();
  await dialog(page).getByRole("alert").waitFor();
  await field(page, "Name").fill("made-here");
  await page.getByLabel(/Add sample data/).check();
  await button(page, "Create").click();
  await page.waitForURL(/made-here\/objects/);
  await page.getByRole("link", { name: "lakes.parquet" }).waitFor();
}

export async function objects({ page, context, at, lake }) {
  await page.goto(at("objects?ref=main"));
  await page.getByRole("link", { name: "by-continent/" }).click();
  await page.getByRole("link", { name: "africa.csv" }).waitFor();
  await page.goBack();
  await page.getByRole("link", { name: "README.md" }).first().waitFor();
  await page.getByLabel("Filter this folder").fill("station");
  await page.getByRole("link", { name: "lakes.parquet" }).waitFor({ state: "detached" });
  await page.getByRole("link", { name: "stations.csv" }).waitFor();
  await page.getByLabel("Filter this folder").fill("nowhere");
  await says(page, "No entry matches");
  await page.goto(at("objects?ref=nowhere"));
  await says(page, "Reference not found: nowhere");
  await page.goto(at("objects?ref=main&path=uploaded/"));
  await says(page, "This folder is empty");
  await page.getByLabel("Files to upload").setInputFiles([
    { name: "<img src=x onerror=alert(1)>.html", mimeType: "text/html", buffer: Buffer.from("<script>alert(1)</script>") },
    { name: "plain.txt", mimeType: "text/plain", buffer: Buffer.from("hello") },
  ]);
  await page.getByRole("link", { name: "plain.txt" }).waitFor();
  await page.getByRole("link", { name: /onerror/ }).click();
  await says(page, "<script>alert(1)</script>");
  await page.goto(at("objects?ref=main&path=uploaded/"));
  await page.getByRole("button", { name: "Actions for plain.txt" }).click();
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Download" }).click()]);
  assert.equal(download.suggestedFilename(), "plain.txt");
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const copied = async (name) => {
    await page.evaluate(() => navigator.clipboard.writeText(""));
    await page.getByRole("button", { name: "Actions for plain.txt" }).click();
    await button(page, name).click();
    for (let tries = 0; tries < 600; tries += 1) {
      const text = await page.evaluate(() => navigator.clipboard.readText());
      if (text) return text;
      await page.waitForTimeout(50);
    }
    throw new Error(`${name} copied nothing`);
  };
  await page.keyboard.press("Escape");
  assert.equal(await copied("Copy path"), `lakefs://${lake.repository}/main/uploaded/plain.txt`);
  const signed = await fetch(await copied("Copy presigned URL")); // by somebody without keys
  assert.equal(await signed.text(), "hello");
  await page.getByRole("button", { name: "Actions for plain.txt" }).click();
  await button(page, "Code snippets…").click();
  for (const name of ["lakectl", "boto3", "pandas", "DuckDB", "Spark"]) {
    await page.getByRole("tab", { name, exact: true }).click();
    await dialog(page).getByText("uploaded/plain.txt").waitFor();
  }
  await page.goto(at("objects?ref=main"));
  await page.getByRole("button", { name: "Actions for uploaded/" }).click();
  await page.getByRole("button", { name: "Delete" }).click();
  await dialog(page).getByRole("button", { name: "Delete" }).click();
  await page.getByRole("link", { name: "uploaded/" }).waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Ref: main" }).click();
  await page.locator(".picker").getByRole("button", { name: "v1" }).click();
  await page.waitForURL(/ref=v1/);
  await settled(page);
  await page.getByRole("button", { name: "Upload" }).click();
  await says(page, "Pick a branch to upload to");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Ref: v1" }).click();
  await page.locator(".picker").getByText("Recent").waitFor();
}

/** Search on the server: in all folders below, by a link that can be kept. */
export async function search({ page, at }) {
  await page.goto(at("objects?ref=main"));
  await page.getByLabel("Filter this folder").fill("africa");
  await says(page, "Press Enter to search all folders below");
  await page.keyboard.press("Enter");
  await page.waitForURL(/search=africa/);
  await page.getByRole("link", { name: "by-continent/africa.csv" }).waitFor();
  await says(page, "1 found");
  await page.reload();
  await page.getByRole("link", { name: "by-continent/africa.csv" }).click();
  await page.waitForURL(/\/object\?/);
  await page.goBack();
  await page.getByRole("link", { name: "by-continent/africa.csv" }).waitFor();
  await button(page, "Back to folder").click();
  await page.getByRole("link", { name: "lakes.parquet" }).waitFor();
  await page.getByLabel("Filter this folder").fill("ocean");
  await button(page, "Search all folders below").click();
  await says(page, "No path contains “ocean”");
  await page.goto(at("objects?ref=main&path=by-continent/&search=LAKES"));
  await says(page, "No path below by-continent/ contains “LAKES”");
}

/** Files and folders are dropped on the list, as from the desktop. */
export async function dropping({ page, context, at, lake }) {
  await page.goto(at("objects?ref=draft&path=dropped/"));
  await says(page, "This folder is empty");
  const box = await page.locator(".drop").boundingBox();
  const desktop = await context.newCDPSession(page);
  const drag = (type) => desktop.send("Input.dispatchDragEvent", { type, x: box.x + 80, y: box.y + 80, data: { items: [], files: lake.droppable, dragOperationsMask: 1 } });
  for (const type of ["dragEnter", "dragOver"]) await drag(type);
  await page.locator(".drop.over").waitFor();
  await drag("drop");
  await page.getByRole("link", { name: "levels.csv" }).waitFor();
  await page.getByRole("link", { name: "survey/" }).click();
  await page.getByRole("link", { name: "first.txt" }).waitFor();
  await page.getByRole("link", { name: "deep/" }).click();
  await page.getByRole("link", { name: "second.txt" }).click();
  await says(page, "two");
  // A tag takes nothing, and says so.
  await page.goto(at("objects?ref=v1"));
  await settled(page);
  await page.getByRole("button", { name: "Upload" }).click();
  await says(page, "Pick a branch to upload to");
  for (const type of ["dragEnter", "dragOver", "drop"]) await drag(type);
  await page.getByRole("status").getByText("Pick a branch to upload to").waitFor();
}

export async function previews({ page, at }) {
  const show = async (path, ...texts) => {
    await page.goto(at(`object?ref=main&path=${path}`));
    for (const text of texts) await page.getByLabel("Preview").getByText(text).first().waitFor();
  };
  await show("lakes.parquet", "Tanganyika", "7 rows", "358 … 32900");
  // Numbers are to the right, so that digits stand below each other.
  const sides = await page.locator(".preview tbody tr:first-child td").evaluateAll((cells) => cells.map((cell) => [/^[\d.]+$/.test(cell.textContent), getComputedStyle(cell).textAlign]));
  assert(sides.some(([isNumber]) => isNumber) && sides.some(([isNumber]) => !isNumber), String(sides));
  for (const [isNumber, side] of sides) assert.equal(side === "right", isNumber, String(sides));
  await show("stations.csv", "Station 12", "40 rows");
  await show("events.jsonl", "drought", "120 rows", "0 … 36");
  const bars = page.getByLabel("Histogram of the file, from 0 to 36").locator("rect");
  const heights = () => bars.evaluateAll((all) => all.map((each) => each.getAttribute("height")));
  const before = await heights();
  await button(page, "Next").click();
  await says(page, "51–100");
  assert.deepEqual(await heights(), before);
  await show("levels.arrow", "370.7", "these rows: 0 … 49");
  await show("analysis.ipynb", "370.62");
  await show("notes.txt", "metres above the sea");
  await show("README.md", "A sample repository");
  await says(page, "Add a README"); // the commit that last changed it
  await show("broken.parquet", "The object cannot be read as parquet");
  await show("picture.png");
  await page.waitForFunction(() => document.querySelector(".preview img")?.naturalWidth === 1);
  await page.goto(at("object?ref=main&path=not-there.csv"));
  await says(page, "Object not found");
}

export async function changes({ page, at }) {
  await page.goto(at("objects?ref=draft"));
  await page.getByLabel("Files to upload").setInputFiles([{ name: "mistake.txt", mimeType: "text/plain", buffer: Buffer.from("x") }]);
  await page.getByRole("link", { name: "mistake.txt" }).waitFor();
  await page.goto(at("changes?ref=draft"));
  await button(page, "Discard the change of mistake.txt").click();
  await page.getByRole("link", { name: "mistake.txt" }).waitFor({ state: "detached" });
  await page.getByText("new.txt").waitFor();
  await button(page, "Commit").click();
  await says(page, "Enter a message");
  await field(page, "Message").fill("From the page");
  await button(page, "Add metadata").click();
  await field(page, "Name").fill("team");
  await field(page, "Value").fill("pages");
  await dialog(page).getByRole("button", { name: "Commit" }).click();
  await says(page, "No uncommitted changes");
  await button(page, "Commit").click();
  await field(page, "Message").fill("Nothing");
  await dialog(page).getByRole("button", { name: "Commit" }).click();
  await says(page, "Nothing to commit on");
  await page.keyboard.press("Escape");
  await page.goto(at("commits?ref=draft"));
  await page.getByRole("link", { name: "From the page" }).click();
  await says(page, "metadata: team");
  await page.getByText("new.txt").waitFor();
}

export async function history({ page, at, lake }) {
  await page.goto(at("commits?ref=main"));
  await page.getByText("merge", { exact: true }).waitFor();
  assert((await page.locator(".log svg circle").count()) >= 9);
  await page.getByLabel("Message, author or id").fill("depths");
  await page.getByRole("link", { name: "Add seven lakes" }).waitFor({ state: "detached" });
  await page.getByLabel("Message, author or id").fill("nobody wrote this");
  await says(page, "No commit matches");
  // Those that are not loaded yet are looked at too.
  await page.route(/\/commits\?/, (route) => route.continue({ url: route.request().url().replace("amount=100", "amount=2") }));
  await page.reload();
  await page.getByLabel("Message, author or id").fill("seven lakes");
  await page.getByRole("link", { name: "Add seven lakes" }).waitFor();
  await page.unroute(/\/commits\?/);
  await page.goto(at(`commits/${lake.commit}`));
  await compareRows(page);
  await says(page, "3 rows added");
  await page.getByLabel("Changed rows").getByText("Station 43").waitFor();
  const [answer] = await Promise.all([
    page.waitForResponse((each) => each.url().includes("keys=id&keys=name")),
    page.locator(".rows-of").getByLabel("name", { exact: true }).click(),
  ]);
  assert.equal(answer.status(), 200);
  await button(page, "Branch from here").click();
  await field(page, "Branch name").fill("main");
  await button(page, "Create branch").click();
  await says(page, "already exists");
  await field(page, "Branch name").fill("from-a-commit");
  await button(page, "Create branch").click();
  await page.waitForURL(/ref=from-a-commit/);
  for (const [name, message] of [["Revert", "Revert"], ["Cherry-pick", "Three new stations"]]) {
    await page.goto(at(`commits/${lake.commit}`));
    await button(page, name).click();
    await field(page, "On branch").fill("no-such-branch");
    await dialog(page).getByRole("button", { name }).click();
    await dialog(page).getByRole("alert").waitFor();
    await field(page, "On branch").fill("from-a-commit");
    await dialog(page).getByRole("button", { name }).click();
    await page.waitForURL(/commits\?ref=from-a-commit/);
    await page.locator(".log li").first().getByText(message).waitFor();
  }
}

export async function branchesAndTags({ page, at }) {
  await page.goto(at("branches"));
  await button(page, "Create branch").click();
  await field(page, "Name").fill("main");
  await button(page, "Create").click();
  await says(page, "Branch main already exists: use another name");
  await field(page, "Name").fill("from-the-page");
  await button(page, "Create").click();
  await page.getByRole("link", { name: "from-the-page" }).waitFor();
  await page.getByRole("button", { name: "Actions for from-the-page" }).click();
  await button(page, "Protect").click();
  await dialog(page).getByRole("button", { name: "Protect" }).click();
  await page.getByText("protected").waitFor();
  await page.goto(at("objects?ref=from-the-page"));
  await page.getByLabel("Files to upload").setInputFiles([{ name: "x.txt", mimeType: "text/plain", buffer: Buffer.from("x") }]);
  await says(page, "Branch from-the-page is protected");
  await page.goto(at("objects?ref=from-the-page"));
  await page.getByRole("button", { name: "Upload" }).click();
  await says(page, "Branch from-the-page is protected: change another branch and merge");
  for (const name of ["Files", "A folder"]) assert(await button(page, name).isDisabled(), name);
  for (const [part, name] of [["object?path=README.md&", "Delete"], ["changes?", "Commit"], ["changes?", "Discard all"]]) {
    await page.goto(at(`${part}ref=from-the-page`));
    await page.getByRole("button", { name, exact: true, disabled: true }).and(page.locator('[title^="Branch from-the-page is protected"]')).waitFor();
  }
  await page.goto(at("import?ref=from-the-page"));
  await says(page, "Branch from-the-page is protected: change another branch and merge");
  await page.goto(at("branches"));
  await page.getByRole("button", { name: "Actions for from-the-page" }).click();
  await says(page, "A protected branch cannot be deleted");
  await page.goto(at("branches"));
  await button(page, "Create branch").click();
  await field(page, "Name").fill("short-lived");
  await button(page, "Create").click();
  await page.getByRole("button", { name: "Actions for short-lived" }).click();
  await button(page, "Delete").click();
  await dialog(page).getByRole("button", { name: "Delete" }).click();
  await page.getByRole("link", { name: "short-lived" }).waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Actions for main" }).click();
  await says(page, "The default branch cannot be deleted");
  await page.goto(at("tags"));
  await button(page, "Create tag").click();
  await field(page, "Name").fill("v1");
  await button(page, "Create").click();
  await says(page, "Tag v1 already exists: use another name");
  await field(page, "Name").fill("not a name");
  await button(page, "Create").click();
  await dialog(page).getByRole("alert").getByText("not a name").waitFor();
  await field(page, "Name").fill("v2");
  await button(page, "Create").click();
  await page.getByRole("link", { name: "v2" }).waitFor();
  await page.getByRole("button", { name: "Actions for v2" }).click();
  await page.getByRole("button", { name: "Delete" }).click();
  await dialog(page).getByRole("button", { name: "Delete" }).click();
  await page.getByRole("link", { name: "v2" }).waitFor({ state: "detached" });
}

/** Rows of tables that are too large are not called equal. */
export async function largeTables({ page, at }) {
  await page.goto(at("compare?ref=main&compare=shrunk"));
  await button(page, "Compare rows").click();
  await says(page, "Comparison is incomplete");
  await says(page, "25,000 rows → 24,000 rows");
  await says(page, "at least 1,000 rows removed");
  await says(page, "Version before: 20,000 of 25,000 rows read.");
  await says(page, "No rows to show");
  assert.equal(await page.getByText("Key columns").count(), 0);
  assert.equal(await page.getByText("No row differences").count(), 0);
}

export async function compareAndMerge({ page, at, lake }) {
  for (const place of [`compare?ref=main&compare=${lake.branch}`, `pulls/${lake.pull}`]) {
    await page.goto(at(place));
    await compareRows(page);
    await page.getByRole("cell", { name: "Station 7" }).waitFor(); // what a merge brings, and not what is uncommitted
    assert.equal(await page.getByRole("cell", { name: "Station 9" }).count(), 0);
  }
  await page.goto(at("compare"));
  await says(page, "Choose refs to compare");
  assert(await button(page, "Merge").isDisabled());
  await page.goto(at("compare?ref=main&compare=other-side"));
  await page.getByRole("link", { name: "conflict.txt" }).waitFor();
  await button(page, "Merge").click();
  await dialog(page).getByRole("button", { name: "Merge" }).click();
  await says(page, "Both sides changed 'conflict.txt' differently");
  await page.getByText("1 conflict", { exact: true }).waitFor();
  await dialog(page).locator("select").selectOption("source-wins");
  await dialog(page).getByRole("button", { name: "Merge" }).click();
  await says(page, "has all commits of other-side");
  assert(await button(page, "Merge").isDisabled());
}

export async function pullRequests({ page, at, lake }) {
  await page.goto(at("pulls"));
  const open = page.getByRole("link", { name: "Open a pull request" });
  await open.click();
  await button(page, "Cancel").click();
  await dialog(page).waitFor({ state: "detached" });
  await open.click();
  await says(page, "Choose the branch to merge");
  await page.getByRole("button", { name: "From: choose" }).click();
  await page.locator(".picker .list").getByRole("button", { name: "proposal" }).click();
  await says(page, "Enter a title");
  assert(await dialog(page).getByRole("button", { name: "Open", exact: true }).isDisabled());
  await field(page, "Title").fill("From the page");
  await dialog(page).getByRole("button", { name: "Open", exact: true }).click();
  await page.waitForURL(({ pathname }) => !/\/pulls(\/create)?$/.test(pathname));
  await compareRows(page);
  await says(page, "1 row added");
  await button(page, "Close").click();
  await button(page, "Reopen").click();
  await button(page, "Merge").click();
  await page.getByText("merged", { exact: true }).waitFor();
  await page.goto(at(`pulls/${lake.conflicting_pull}`));
  await says(page, "This pull request has conflicts");
  assert(await button(page, "Merge").isDisabled());
}

export async function actions({ page, at }) {
  await page.goto(at("actions"));
  await page.getByText("failed", { exact: true }).first().waitFor();
  await page.getByRole("link", { name: "pre-commit" }).first().click();
  await says(page, "a level is below the bed");
  // The commit that it refused says so, and nothing is begun from it.
  await page.getByLabel("About this run").getByRole("link").click();
  await says(page, "Refused by a hook; not on any branch");
  await says(page, "Refused by pre-commit hook 'above-the-bed' of action 'levels'");
  for (const name of ["Branch from here", "Revert", "Cherry-pick"]) assert(await button(page, name).isDisabled(), name);
  const refused = new URL(page.url()).pathname.split("/").pop();
  await page.goto(at(`commits?ref=${refused}`));
  await page.getByText("refused", { exact: true }).waitFor();
  await page.goto(at("actions"));
  await page.getByLabel("Filter by branch").fill("no-such-branch");
  await says(page, "No runs for no-such-branch");
  await page.goto(at("changes?ref=checked"));
  await button(page, "Commit").click();
  await field(page, "Message").fill("A level below again");
  await dialog(page).getByRole("button", { name: "Commit" }).click();
  await dialog(page).getByText("a level is below the bed").waitFor();
  // What is turned off says so.
  await page.route(at("actions"), async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, body: (await answer.text()).replace('content="actions ', 'content="') });
  });
  await page.goto(at("actions"));
  await says(page, "Actions are disabled on this server");
}

/** Somebody commits; somebody else watches what the hook prints, while it goes on. */
export async function watching({ page, context, at }) {
  await page.goto(at("changes?ref=watched"));
  await button(page, "Commit").click();
  await field(page, "Message").fill("Wait for the gate");
  await dialog(page).getByRole("button", { name: "Commit" }).click();
  await dialog(page).getByRole("button", { name: "Working…" }).waitFor();
  await untilRunning(context, new URL("/api/v1/repositories/lakes/actions/runs?running=true", at("actions")));
  const other = await context.newPage();
  await other.goto(at("actions"));
  await other.getByText("running", { exact: true }).waitFor();
  await other.getByRole("link", { name: "pre-commit" }).first().click();
  await other.getByText("waiting for the gate").waitFor();
  await other.getByText("running", { exact: true }).first().waitFor();
  const third = await context.newPage();
  await third.goto(at("objects?ref=gate"));
  await third.getByLabel("Files to upload").setInputFiles([{ name: "gate.txt", mimeType: "text/plain", buffer: Buffer.from("open") }]);
  await third.getByRole("link", { name: "gate.txt" }).waitFor();
  await other.getByText("the gate is open").waitFor();
  await other.getByText("running", { exact: true }).first().waitFor({ state: "detached" });
  await other.getByText("completed", { exact: true }).first().waitFor();
  await says(page, "No uncommitted changes");
  await page.goto(at("changes?ref=gate"));
  await page.getByRole("link", { name: "gate.txt" }).waitFor();
  await button(page, "Discard all").click();
  await dialog(page).getByRole("button", { name: "Discard all" }).click();
  await says(page, "No uncommitted changes");
}

/** Wait until the server says that a run goes on: the commit that starts it has only been asked for. */
async function untilRunning(context, url) {
  for (let looks = 0; looks < 600; looks += 1) {
    const listed = await (await context.request.get(String(url))).json();
    if (listed.results.some((each) => each.status === "running")) return;
    await new Promise((again) => setTimeout(again, 50));
  }
  throw new Error("no run began");
}

/** Garbage collection: the figures of a run, what is due, and rules that are set and taken away. */
export async function garbage({ page, at }) {
  await page.goto(at("settings/retention"));
  await says(page, "As of the run that started");
  await page.getByRole("row", { name: /done/ }).first().waitFor();
  await says(page, "all commits are retained");
  await button(page, "Edit rules").click();
  const save = dialog(page).getByRole("button", { name: "Save" });
  await field(page, "Retain commits for (days)").fill("0");
  await says(page, "Enter a number of days");
  assert(await save.isDisabled());
  await field(page, "Retain commits for (days)").fill("30");
  await field(page, "Exceptions by branch").fill("main");
  await says(page, "“main” is not a branch and a number of days");
  assert(await save.isDisabled());
  await field(page, "Exceptions by branch").fill("main 90\nmain 60");
  await save.click();
  await dialog(page).getByRole("alert").waitFor();
  await field(page, "Exceptions by branch").fill("main 90\nexp-* 7");
  await save.click();
  await says(page, "90 days");
  await page.reload();
  await says(page, "7 days");
  await button(page, "Preview expiry").click();
  await says(page, "would mark 0 and expire 0");
  await button(page, "Edit rules").click();
  await button(page, "Remove all rules").click();
  await says(page, "all commits are retained");
}

export async function settings({ page, at, lake }) {
  await page.goto(at("settings"));
  await page.getByLabel("Branch pattern").fill("release-*");
  await button(page, "Protect").click();
  await page.getByText("release-*", { exact: true }).waitFor();
  await page.getByLabel("Branch pattern").fill("release-*");
  await says(page, "A rule for release-* already exists");
  await button(page, "Remove release-*").click();
  await says(page, "Strict: a change must also pass the hooks of the branch's current head.");
  await button(page, "Make hooks not strict").click();
  await says(page, "Users who can change action files can disable hooks.");
  await button(page, "Make hooks strict").click();
  await button(page, "Make hooks not strict").waitFor();
  await button(page, "Add metadata").click();
  await field(page, "Name").fill("owner");
  await field(page, "Value").fill("hydrology");
  await button(page, "Save").click();
  await says(page, "Metadata saved");
  await page.reload();
  assert.equal(await field(page, "Value").inputValue(), "hydrology");
  await button(page, "Delete").click();
  await field(page, `Type ${lake.repository} to confirm`).fill("something else");
  assert(await dialog(page).getByRole("button", { name: "Delete" }).isDisabled());
  await page.goto(at("settings/retention"));
  await says(page, "all commits are retained");
  await says(page, "No unfinished uploads");
}

export async function imports({ page, at, lake }) {
  await page.goto(at("import"));
  await field(page, "Source").fill("gs://elsewhere/x");
  await says(page, "Must be in this server's storage");
  assert(await button(page, "Import").isDisabled());
  await field(page, "Source").fill(lake.importable);
  await says(page, "Enter a commit message");
  await field(page, "Destination").fill("imported/");
  await field(page, "Commit message").fill("From elsewhere");
  await button(page, "Import").click();
  await page.getByText("done", { exact: true }).waitFor();
  await page.getByRole("link", { name: "Objects on main" }).click();
  await page.getByRole("link", { name: "imported/" }).waitFor();
  // The page hears late that an import is over: it is cancelled, or it was over before, and that is said.
  await page.route(/\/import\?id=/, async (route) => {
    if (route.request().method() !== "GET") return route.continue();
    const answer = await route.fetch();
    return route.fulfill({ response: answer, json: { ...(await answer.json()), completed: false, commit: undefined } });
  });
  await page.goto(at("import"));
  await field(page, "Source").fill(lake.importable);
  await field(page, "Destination").fill("imported-again/");
  await field(page, "Commit message").fill("Once more");
  await button(page, "Import").click();
  await page.getByText("running", { exact: true }).waitFor();
  await page.getByRole("progressbar", { name: "Import" }).waitFor();
  await button(page, "Cancel").click();
  await page.getByRole("alert").or(page.getByText("Canceled", { exact: true })).first().waitFor();
}

export async function administration({ page, lake }) {
  await page.goto(`${lake.endpoint}/auth/users`);
  await button(page, "Create user").click();
  await field(page, "Name").fill("admin");
  await button(page, "Create").click();
  await says(page, "User admin already exists");
  await field(page, "Name").fill("reader-of-pages");
  await button(page, "Create").click();
  await page.waitForURL(/reader-of-pages/);
  await says(page, "Without keys, reader-of-pages cannot log in");
  await button(page, "Create keys").click();
  await says(page, "shown only once");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: /^Delete AKIA/ }).waitFor();
  await page.getByRole("region", { name: "Policies", exact: true }).getByRole("button", { name: "Add" }).click();
  await dialog(page).locator("select").selectOption("FSReadAll");
  await dialog(page).getByRole("button", { name: "Add" }).click();
  await page.getByRole("link", { name: "FSReadAll" }).first().waitFor();
  const inEffect = page.getByLabel("Effective policies");
  await inEffect.getByRole("link", { name: "FSReadAll" }).waitFor();
  await page.getByRole("region", { name: "Groups", exact: true }).getByRole("button", { name: "Add" }).click();
  await dialog(page).locator("select").selectOption("Viewers");
  await dialog(page).getByRole("button", { name: "Add" }).click();
  await inEffect.getByRole("link", { name: "AuthManageOwnCredentials" }).waitFor();
  for (const part of ["groups", "policies", "policies/effective", "credentials"]) {
    await page.goto(`${lake.endpoint}/auth/users/reader-of-pages/${part}`); // as lakeFS's pages are called
    await says(page, "Keys of reader-of-pages");
  }
  await page.goto(`${lake.endpoint}/auth/policies`);
  await button(page, "Create policy").click();
  await field(page, "Name").fill("from-the-page");
  await field(page, "Statements").fill("[{");
  await says(page, "Invalid JSON");
  await field(page, "Statements").fill('[{"effect": "perhaps", "action": ["fs:*"], "resource": "*"}]');
  await says(page, 'effect must be "allow" or "deny"');
  assert(await button(page, "Create").isDisabled());
  await field(page, "Statements").fill('[{"effect": "deny", "action": ["fs:DeleteObject"], "resource": "*"}]');
  await button(page, "Create").click();
  await page.waitForURL(/policies\/from-the-page/);
  await page.goto(`${lake.endpoint}/auth/groups`);
  await button(page, "Create group").click();
  await says(page, "Enter a name");
  await field(page, "Name").fill("Admins");
  await button(page, "Create").click();
  await says(page, "Group Admins already exists");
  await page.goto(`${lake.endpoint}/auth/groups/Admins/members`);
  await page.getByRole("link", { name: "admin", exact: true }).waitFor();
  await page.goto(`${lake.endpoint}/auth/credentials`);
  await says(page, "Keys of admin");
  await page.goto(`${lake.endpoint}/about`);
  await page.getByText("ready", { exact: true }).waitFor();
}

/** Somebody who may only read is told so, by the buttons where it is known, and by which permission. */
export async function readerIsRefused({ page, context, at, lake }) {
  await context.clearCookies();
  await page.goto(`${lake.endpoint}/auth/login`);
  await field(page, "Access key ID").fill(lake.reader.key);
  await field(page, "Secret access key").fill(lake.reader.secret);
  await button(page, "Log in").click();
  await page.waitForURL(/\/repositories/);
  const refused = async (address, name, permission) => {
    await page.goto(address);
    const found = page.getByRole("button", { name, exact: true, disabled: true }).and(page.locator(`[title*="the permission ${permission}"]`));
    await found.first().waitFor();
  };
  await refused(at(`changes?ref=${lake.branch}`), "Commit", "fs:CreateCommit");
  await refused(at(`changes?ref=${lake.branch}`), "Discard all", "fs:RevertBranch");
  await refused(at(`compare?ref=main&compare=${lake.branch}`), "Merge", "fs:CreateCommit");
  await refused(at("object?ref=main&path=README.md"), "Delete", "fs:DeleteObject");
  await refused(at("settings"), "Save", "fs:UpdateRepository");
  await refused(at("settings"), "Delete", "fs:DeleteRepository");
  await refused(at("settings/retention"), "Edit rules", "retention:SetGarbageCollectionRules");
  await refused(`${lake.endpoint}/auth/credentials`, "Create keys", "auth:CreateCredentials");
  await page.goto(at("import"));
  await says(page, "Requires the permission fs:CreateCommit");
  // Whether a name that is still to be chosen is allowed, the server says when it is asked.
  await page.goto(at("branches"));
  await button(page, "Create branch").click();
  await field(page, "Name").fill("mine");
  await button(page, "Create").click();
  await says(page, "Insufficient permissions: user");
  await says(page, "fs:CreateBranch");
  await page.goto(at(`pulls/${lake.pull}`));
  await says(page, "pr:ReadPullRequest");
  await page.goto(`${lake.endpoint}/auth/users`);
  await says(page, "auth:ListUsers");
}

export async function keyboard({ page, at }) {
  await page.goto(at("objects?ref=main"));
  await page.getByRole("link", { name: "lakes.parquet" }).waitFor();
  await page.keyboard.press("/");
  assert.equal(await page.evaluate(() => document.activeElement?.getAttribute("placeholder")), "Filter this folder");
  await page.keyboard.type("?");
  assert.equal(await page.getByLabel("Filter this folder").inputValue(), "?");
  await page.getByLabel("Filter this folder").fill("");
  await page.getByRole("link", { name: "lakes.parquet" }).waitFor();
  // In a window that is shorter than the page: what is scrolled to its top is not under the bar.
  await page.setViewportSize({ width: 1280, height: 400 });
  await page.locator("main").evaluate((main) => main.scrollIntoView());
  await page.locator("main").click({ position: { x: 2, y: 2 } });
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard" }).waitFor();
  await page.keyboard.press("Escape");
  await dialog(page).waitFor({ state: "detached" });
  await page.keyboard.type("gc");
  await page.waitForURL(/\/commits/);
  // Keys that come before the browser has taken the focus out of a window that was closed.
  await page.evaluate(() => {
    const closed = document.body.appendChild(document.createElement("dialog"));
    const inside = closed.appendChild(document.createElement("button"));
    for (const key of "gb") inside.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    closed.remove();
  });
  await page.waitForURL(/\/branches/);
}

/** Addresses of lakeFS's pages that have another one here, opened in a new window as links of its tools are. */
export async function links({ page, lake, at }) {
  for (const [address, place, title] of [
    [lake.endpoint, /\/$/, "Repositories"],
    [at(""), /\/objects$/, "README.md"],
    [at("objects"), /\/objects$/, "README.md"],
    [at("commits"), /\/commits$/, "Commits"],
    [at("settings/general"), /\/settings\/general$/, "Settings"],
    [at("settings/branches"), /\/settings\/branches$/, "Settings"],
    [at(`pulls/create?ref=main&compare=${lake.branch}`), /\/pulls\/create\?/, "Open a pull request"],
    [`${lake.endpoint}/auth`, /\/auth\/credentials$/, "My keys"],
    [`${lake.endpoint}/auth/groups/Admins/policies`, /\/policies$/, "Admins"],
  ]) {
    await page.goto(address);
    await page.getByRole("heading", { name: title, exact: true }).waitFor();
    await page.waitForURL(place);
  }
  await page.goto(at(`pulls/create?ref=main&compare=${lake.branch}`));
  await page.getByRole("button", { name: `From: ${lake.branch}` }).waitFor();
}

/** The list of objects is there after one round trip: it waits for no other answer. */
export async function firstPaint({ page, at }) {
  const asked = [];
  await page.route("**/api/v1/**", async (route) => {
    asked.push(new URL(route.request().url()).pathname);
    if (/\/objects\/ls$/.test(asked[asked.length - 1])) await route.continue(); // all others are never answered
  });
  await page.goto(at("objects?ref=main"));
  await page.getByRole("link", { name: "lakes.parquet" }).waitFor();
  return { asked };
}

/**
 * Every page: no serious fault for people who hear it or see it badly, in both colour schemes, and
 * on a phone nothing that is wider than the window.
 */
export async function everyPage({ page, lake, axe }) {
  const faults = [];
  const wide = [];
  for (const [name, address, act] of PAGES(lake)) {
    await page.emulateMedia({ colorScheme: "light" });
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.goto(lake.endpoint + address);
    await settled(page);
    if (act) await act(page);
    faults.push(...(await faultsOf(page, axe, name)));
    await page.emulateMedia({ colorScheme: "dark" });
    faults.push(...(await faultsOf(page, axe, `${name}, dark`, { runOnly: ["color-contrast"] })));
    await page.setViewportSize({ width: 390, height: 800 });
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    if (width > 390) wide.push(`${name}: ${width} px`);
  }
  return { faults, wide };
}

/** The page of the API: what is tried there is done, by the login of the pages or by keys. */
export async function apiPage({ page, context, lake }) {
  const elsewhere = [];
  context.on("request", (each) => new URL(each.url()).origin === lake.endpoint || elsewhere.push(each.url()));
  let visits = 0;
  const answer = async (operation, fill) => {
    await page.goto(`${lake.endpoint}/docs?${++visits}#/${operation}`); // it is loaded again, and opened there
    await button(page, "Try it out").click();
    if (fill) await fill();
    await button(page, "Execute").click();
    return page.locator(".live-responses-table .response").first().innerText();
  };
  assert.match(await answer("repositories/listRepositories"), new RegExp(`^200[^]*"id": "${lake.repository}"`));
  const branch = async () => {
    await page.getByPlaceholder("repository", { exact: true }).fill(lake.repository);
    await page.locator("textarea").fill('{"name": "from-the-docs", "source": "main"}');
  };
  assert.match(await answer("branches/createBranch", branch), /^201/);
  const upload = async () => {
    await page.getByPlaceholder("repository", { exact: true }).fill(lake.repository);
    await page.getByPlaceholder("branch", { exact: true }).fill("from-the-docs");
    await page.getByPlaceholder("path", { exact: true }).fill("from/the-page.csv");
    await page.locator("input[type=file]").setInputFiles({ name: "page.csv", mimeType: "text/csv", buffer: Buffer.from("a,b\n1,2\n") });
  };
  assert.match(await answer("objects/uploadObject", upload), /^201[^]*from\/the-page.csv/);

  // Without a login: refused, and done with keys, which are kept nowhere.
  await context.clearCookies();
  assert.match(await answer("repositories/listRepositories"), /^401/);
  const authorize = async () => {
    await page.locator(".auth-wrapper .authorize").first().click();
    await page.getByLabel("Username").fill(lake.key);
    await page.getByLabel("Password").fill(lake.secret);
    await page.getByLabel("Apply credentials").first().click();
    await page.locator(".btn-done").first().click();
  };
  assert.match(await answer("repositories/listRepositories", authorize), /^200/);
  const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]));
  assert(!kept.includes(lake.secret), kept);

  // All is there, in the dark and on a phone.
  const { paths } = await (await page.request.get(`${lake.endpoint}/openapi.json`)).json();
  await page.goto(`${lake.endpoint}/docs`);
  await page.locator(".opblock-tag").first().waitFor();
  let shown = 0;
  for (const tag of await page.locator(".opblock-tag").all()) {
    await tag.click();
    await page.locator(".opblock").first().waitFor();
    shown += await page.locator(".opblock").count();
    await tag.click(); // of many open ones, those out of sight are not in the document
    await page.locator(".opblock").first().waitFor({ state: "detached" });
  }
  assert.equal(shown, Object.values(paths).flatMap(Object.keys).length);
  assert.equal(await page.getByText("Could not render").count(), 0);
  await page.setViewportSize({ width: 390, height: 800 });
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
  await page.emulateMedia({ colorScheme: "dark" });
  await page.waitForFunction(() => getComputedStyle(document.documentElement).colorScheme === "dark");
  assert.deepEqual(elsewhere, []);
}
