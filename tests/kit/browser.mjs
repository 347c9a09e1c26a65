// A Chromium that tests tell what to open: one visit for each line of JSON on the standard input.
//
// A visit is {url, cookie, pages, without}: a fresh profile, with a cookie if one is given,
// opens the URL. `pages` are pages by their URLs that no server has to serve; `without` is a header
// that the browser does not see. The visit ends when a page has the title "done", when the
// URL turns out to be a download, or when nothing more is loaded and no title was set.
// The answer is a line of JSON: {ended, title, text}.

import { existsSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const folder = fileURLToPath(new URL("../../node_modules/.chromium", import.meta.url));

// Unpack Chromium, once; several programs may do so at the same time.
async function unpack() {
  const draft = mkdtempSync(`${folder}-`);
  // The package unpacks into the folder for temporary files, and the few libraries that Chromium
  // needs too if it believes that it runs where its makers use it.
  const kept = process.env.TMPDIR;
  process.env.TMPDIR = draft;
  process.env.AWS_LAMBDA_JS_RUNTIME = "nodejs20.x";
  await (await import("@sparticuz/chromium")).default.executablePath();
  if (kept === undefined) delete process.env.TMPDIR;
  else process.env.TMPDIR = kept;
  // Its own list of folders with fonts names other places; without fonts, Chromium shows no text.
  const fonts = `<dir>${folder}/fonts</dir><cachedir>${folder}/fonts-cache</cachedir>`;
  writeFileSync(`${draft}/fonts.conf`, `<fontconfig>${fonts}</fontconfig>`);
  try {
    renameSync(draft, folder);
  } catch (error) {
    if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
    rmSync(draft, { recursive: true });
  }
}

if (!existsSync(folder)) await unpack();
const browser = await chromium.launch({
  executablePath: `${folder}/chromium`,
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-features=LocalNetworkAccessChecks",
    "--host-resolver-rules=MAP *.example 127.0.0.1",
  ],
  env: {
    ...process.env,
    LD_LIBRARY_PATH: `${folder}/al2023/lib`,
    FONTCONFIG_FILE: `${folder}/fonts.conf`,
  },
});

async function visit({ url, cookie, pages, without }) {
  const context = await browser.newContext();
  try {
    if (cookie) await context.addCookies([cookie]);
    for (const [address, html] of Object.entries(pages ?? {}))
      await context.route(address, (route) => route.fulfill({ contentType: "text/html", body: html }));
    if (without)
      await context.route(url, async (route) => {
        const response = await route.fetch();
        const headers = response.headers();
        delete headers[without];
        await route.fulfill({ response, headers });
      });
    return await open(await context.newPage(), url);
  } finally {
    await context.close();
  }
}

async function open(page, url) {
  const download = page.waitForEvent("download", { timeout: 0 }).then(
    () => "download",
    () => "closed",
  );
  const done = page.waitForFunction('document.title === "done"', null, { timeout: 0 }).then(
    () => "done",
    () => "closed",
  );
  const loaded = page.goto(url, { waitUntil: "networkidle" }).then(
    () => "loaded",
    (error) => (/Download is starting|ERR_ABORTED/.test(error) ? download : Promise.reject(error)),
  );
  const ended = await Promise.race([download, done, loaded]);
  if (ended === "download") return { ended, title: "", text: "" };
  return { ended, title: await page.title(), text: await page.innerText("body") };
}

console.log(JSON.stringify({ version: browser.version() }));
for await (const line of createInterface({ input: process.stdin }))
  console.log(JSON.stringify(await visit(JSON.parse(line)).catch((error) => ({ error: String(error) }))));
await browser.close();
