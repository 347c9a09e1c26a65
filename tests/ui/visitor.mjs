// Does what a person does on the pages, in a real browser: one scenario for each line of JSON.
//
// A line is {scenario, lake}; the answer is {error, violations, faults, found}: what failed, what
// the security policy of the page had to stop, what the page itself got wrong, and what the scenario
// returns. Each scenario has a profile of its own, logged in unless it is one of `OPEN`.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { launch } from "../kit/launch.mjs";
import { logIn } from "./pages.mjs";
import * as scenarios from "./scenarios.mjs";

const OPEN = new Set(["setUp", "logInAndOut"]);
const PATIENCE = 30_000;
const axe = readFileSync(fileURLToPath(new URL("../../node_modules/axe-core/axe.min.js", import.meta.url)), "utf8");

const browser = await launch();
let session;

async function play({ scenario, lake }) {
  const isOpen = OPEN.has(scenario);
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, storageState: isOpen ? undefined : session });
  context.setDefaultTimeout(PATIENCE);
  const violations = [];
  const faults = [];
  // A script of the page itself listens: what tools run in a page is not bound by its policy.
  await context.exposeBinding("reportViolation", (_, text) => violations.push(text));
  await context.addInitScript(() =>
    document.addEventListener("securitypolicyviolation", (event) =>
      window.reportViolation(`${event.violatedDirective}: ${event.blockedURI} ${event.sample}`),
    ),
  );
  const page = await context.newPage();
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("dialog", (dialog) => faults.push(`a dialog of the browser: ${dialog.message()}`));
  try {
    if (!isOpen && !session) {
      await logIn(page, lake);
      session = await context.storageState();
    }
    const found = await scenarios[scenario]({ page, context, lake, axe, at: (place) => `${lake.endpoint}/repositories/${lake.repository}/${place}` });
    return { violations, faults, found: found ?? null };
  } catch (error) {
    const shown = await page.locator("body").innerText({ timeout: 1000 }).catch(() => "");
    return { error: `${error}\n--- the page showed ---\n${page.url()}\n${shown.slice(0, 1500)}`, violations, faults };
  } finally {
    // The page may ask something until it is closed. A scenario's route that is cut off by that must not end this process.
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await context.close();
  }
}

console.log(JSON.stringify({ scenarios: Object.keys(scenarios) }));
for await (const line of createInterface({ input: process.stdin })) console.log(JSON.stringify(await play(JSON.parse(line))));
await browser.close();
