// A real Chromium by the words of WebDriver over plain HTTP.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

import { sleep } from "./lingua.mjs";

const ELEMENT = "element-6066-11e4-a52e-4f735466cecf";

export async function chromium(t, switches) {
  const driver = spawn("chromedriver", ["--port=0"], { stdio: ["ignore", "pipe", "ignore"] });
  const lines = createInterface({ input: driver.stdout });
  const port = await new Promise((resolve, reject) => {
    lines.on("line", (line) => /successfully on port (\d+)/.test(line) && resolve(/on port (\d+)/.exec(line)[1]));
    driver.on("exit", () => reject(new Error("chromedriver does not start")));
  });
  const call = async (method, path, body) => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method, ...(body && { body: JSON.stringify(body) }) });
    const { value } = await answer.json();
    if (!answer.ok) throw new Error(value.message);
    return value;
  };
  const args = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--lang=en", "--window-size=1280,900", ...switches];
  const capabilities = { alwaysMatch: { browserName: "chrome", "goog:chromeOptions": { args }, "goog:loggingPrefs": { browser: "ALL" } } };
  const { sessionId } = await call("POST", "/session", { capabilities });
  const tell = (what, body) => call("POST", `/session/${sessionId}/${what}`, body);
  t.after(async () => {
    // The browser first: a driver that is killed leaves it behind.
    await call("DELETE", `/session/${sessionId}`).catch(() => {});
    driver.kill("SIGKILL");
  });
  const run = (script) => tell("execute/sync", { script, args: [] });
  return {
    go: (url) => tell("url", { url }),
    run,
    async click(selector) {
      const found = await tell("element", { using: "css selector", value: selector });
      await tell(`element/${found[ELEMENT]}/click`, {});
    },
    async until(what, script, ms = 60_000) {
      for (const end = Date.now() + ms; Date.now() < end; await sleep(100)) {
        const found = await run(script);
        if (found) return found;
      }
      throw new Error(`never: ${what}\n${await run("return document.body.innerText")}`);
    },
    async complaints() {
      return (await tell("se/log", { type: "browser" })).map(({ message }) => message);
    },
  };
}
