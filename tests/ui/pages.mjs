// The pages of the web UI, as tests and screenshots visit them.

/** Wait until nothing on the page is being loaded any more. */
export async function settled(page) {
  await page.waitForFunction(() => document.querySelector("main, h1") && !document.querySelector(".loading"), null, { timeout: 60_000 });
}

/** Log in as a person does. */
export async function logIn(page, { endpoint, key, secret }) {
  await page.goto(`${endpoint}/auth/login`);
  await page.getByLabel("Access key ID").fill(key);
  await page.getByLabel("Secret access key").fill(secret);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.waitForURL(/\/repositories/);
}

/** Name, address, and what to do there first. */
export function PAGES({ repository, branch, commit, run, pull, conflicting_pull }) {
  const at = (page) => `/repositories/${repository}/${page}`;
  return [
    ["repositories", "/repositories"],
    ["create", "/repositories", async (page) => {
      await page.getByRole("button", { name: "Create repository" }).first().click();
      await page.getByText("Example:").waitFor();
    }],
    ["objects", at("objects?ref=main")],
    ["folder", at("objects?ref=main&path=by-continent/")],
    ["search", at("objects?ref=main&search=csv")],
    ["picker", at("objects?ref=main"), async (page) => {
      await page.getByRole("button", { name: "Ref: main" }).click();
      await page.locator(".picker .list button").first().waitFor();
    }],
    ["snippets", at("objects?ref=main"), (page) => page.getByRole("button", { name: "Code", exact: true }).click()],
    ["object", at("object?ref=main&path=lakes.parquet")],
    ["markdown", at("object?ref=main&path=README.md")],
    ["changes", at(`changes?ref=${branch}`)],
    ["commit-form", at(`changes?ref=${branch}`), (page) => page.getByRole("button", { name: "Commit", exact: true }).click()],
    ["commits", at("commits?ref=main")],
    ["commit", at(`commits/${commit}`)],
    ["branches", at("branches")],
    ["tags", at("tags")],
    ["compare", at(`compare?ref=main&compare=${branch}`), async (page) => {
      await page.getByRole("button", { name: "Compare rows" }).first().click();
      await page.getByText("Key columns").last().waitFor();
    }],
    ["merge", at(`compare?ref=main&compare=${branch}`), (page) => page.getByRole("button", { name: "Merge", exact: true }).click()],
    ["pulls", at("pulls")],
    ["pull", at(`pulls/${pull}`)],
    ["pull-conflict", at(`pulls/${conflicting_pull}`)],
    ["actions", at("actions")],
    ["run", at(`actions/${run}`)],
    ["import", at("import")],
    ["garbage", at("settings/retention")],
    ["rules", at("settings/retention"), (page) => page.getByRole("button", { name: "Edit rules" }).click()],
    ["settings", at("settings")],
    ["keyboard", at("settings"), (page) => page.keyboard.press("?")],
    ["credentials", "/auth/credentials"],
    ["users", "/auth/users"],
    ["user", "/auth/users/admin"],
    ["groups", "/auth/groups"],
    ["group", "/auth/groups/Admins"],
    ["policies", "/auth/policies"],
    ["policy", "/auth/policies/FSFullAccess"],
    ["about", "/about"],
    ["missing", "/nowhere"],
    ["login", "/auth/login"],
    ["set-up", "/setup"],
  ];
}
