// Screenshots of all pages: three widths, light and dark. `make ui-shots` runs it.

import { mkdirSync } from "node:fs";
import { launch } from "../kit/launch.mjs";
import { PAGES, logIn, settled } from "./pages.mjs";

const { LAKE, OUT = "ui-shots", ONLY = "", WIDTHS = "390,834,1360", THEMES = "light,dark" } = process.env;
mkdirSync(OUT, { recursive: true });
const lake = JSON.parse(LAKE);
const browser = await launch();
for (const theme of THEMES.split(",")) {
  for (const width of WIDTHS.split(",").map(Number)) {
    const context = await browser.newContext({ colorScheme: theme, viewport: { width, height: 900 }, deviceScaleFactor: 1 });
    const page = await context.newPage();
    await logIn(page, lake);
    for (const [name, address, act] of PAGES(lake)) {
      if (ONLY && !ONLY.split(",").includes(name)) continue;
      await page.mouse.move(0, 0); // so that nothing is hovered over
      await page.goto((name === "set-up" ? lake.waiting : lake.endpoint) + address);
      await settled(page);
      if (act) await act(page);
      await page.screenshot({ path: `${OUT}/${name}-${width}-${theme}.png`, fullPage: !act });
    }
    await context.close();
  }
}
await browser.close();
