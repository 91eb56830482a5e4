// Opens an EventSource in a page of another origin, and prints each event that it is given as a line of JSON.
//
// node event_source.cjs CHROMIUM URL; ends with its standard input. GAPLESS_TEST_BROWSER is the folder that has playwright-core.
"use strict";

const { createServer } = require("node:http");
const { createRequire } = require("node:module");

const { chromium } = createRequire(`${process.env.GAPLESS_TEST_BROWSER}/`)("playwright-core");

async function main(executablePath, url) {
  const site = createServer((_request, answer) => answer.setHeader("content-type", "text/html").end("<title>app</title>"));
  await new Promise((listening) => site.listen(0, "127.0.0.1", listening));
  // Root has no sandbox; the page is ours.
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  process.stdin.resume().on("end", () => browser.close().then(() => process.exit(0)));

  const page = await browser.newPage();
  await page.exposeFunction("tell", (line) => console.log(line));
  await page.goto(`http://127.0.0.1:${site.address().port}/`);
  await page.evaluate((url) => {
    const source = new EventSource(url);
    for (const name of ["subscribed", "snapshot", "event", "revoke", "progress", "reset"]) {
      source.addEventListener(name, ({ data, lastEventId }) =>
        tell(JSON.stringify({ t: name, id: lastEventId, ...JSON.parse(data) })),
      );
    }
  }, url);
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
