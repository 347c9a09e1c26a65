// A Chromium that tests tell what to open: one visit for each line of JSON on the standard input.
//
// A visit is {url, cookie, pages, without}: a fresh profile, with a cookie if one is given,
// opens the URL. `pages` are pages by their URLs that no server has to serve; `without` is a header
// that the browser does not see. The visit ends when a page has the title "done", when the
// URL turns out to be a download, or when nothing more is loaded and no title was set.
// The answer is a line of JSON: {ended, title, text}.

import { createInterface } from "node:readline";
import { launch } from "./launch.mjs";

const browser = await launch([
  "--disable-features=LocalNetworkAccessChecks",
  "--host-resolver-rules=MAP *.example 127.0.0.1",
]);

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
