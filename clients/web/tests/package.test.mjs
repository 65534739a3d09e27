// What is published, what the README shows, and the copy that the scheduler serves.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

const here = fileURLToPath(new URL("..", import.meta.url));
const talk = fileURLToPath(new URL("../../../crates/server/src/talk/lingua", import.meta.url));
const sources = readdirSync(join(here, "src")).map((name) => name.replace(/\.ts$/, "")).sort();

function fresh(t) {
  const folder = mkdtempSync(join(tmpdir(), "lingua-web-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

test("the page of the scheduler has the library as it is compiled now", () => {
  const names = sources.map((name) => `${name}.js`);
  assert.deepEqual(readdirSync(talk).sort(), names, "./clients/web/test --update writes it anew");
  for (const name of names) assert.equal(readFileSync(join(talk, name), "utf8"), readFileSync(join(here, "dist", name), "utf8"), `${name}: ./clients/web/test --update writes it anew`);
});

test("npm pack has the compiled files, their types and the README, and nothing else", (t) => {
  const folder = fresh(t);
  const [packed] = JSON.parse(execFileSync("npm", ["pack", "--json", "--silent", "--pack-destination", folder], { cwd: here, encoding: "utf8" }));
  const wanted = ["README.md", "package.json", ...sources.flatMap((name) => [`dist/${name}.d.ts`, `dist/${name}.js`])];
  assert.deepEqual(packed.files.map(({ path }) => path).sort(), wanted.sort());
  const listed = execFileSync("tar", ["-tzf", join(folder, packed.filename)], { encoding: "utf8" }).trim().split("\n");
  assert.equal(listed.length, wanted.length);
});

test("whoever installs the package gets the library, and nothing beside it", async (t) => {
  const folder = fresh(t);
  const [packed] = JSON.parse(execFileSync("npm", ["pack", "--json", "--silent", "--pack-destination", folder], { cwd: here, encoding: "utf8" }));
  execFileSync("tar", ["-xzf", packed.filename], { cwd: folder });
  const root = join(folder, "package");
  const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  assert.equal(manifest.dependencies, undefined);
  const { Session, Microphone, Playback, Talker, Vad } = await import(pathToFileURL(join(root, manifest.exports["."].default)));
  for (const made of [Session, Microphone, Playback, Talker, Vad]) assert.equal(typeof made, "function");
});

test("the example of the README is right by its types", (t) => {
  const folder = fresh(t);
  const readme = readFileSync(join(here, "README.md"), "utf8");
  const examples = [...readme.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code]) => code);
  assert.ok(examples.length > 0);
  examples.forEach((code, n) => writeFileSync(join(folder, `example${n}.ts`), code));
  const options = {
    target: "ES2022", module: "ES2022", moduleResolution: "bundler", lib: ["ES2022", "DOM", "DOM.Iterable"], types: [], strict: true, noEmit: true,
    paths: { "lingua-web": [join(here, "dist/index.d.ts")] },
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions: options, include: ["*.ts"] }));
  try {
    execFileSync(process.execPath, [join(here, "node_modules/typescript/bin/tsc"), "-p", folder], { encoding: "utf8" });
  } catch (error) {
    assert.fail(error.stdout);
  }
});

test("the lock file names no host, and one tool for developers", () => {
  const lock = readFileSync(join(here, "package-lock.json"), "utf8");
  assert.equal(/https?:|resolved/.test(lock), false);
  assert.deepEqual(Object.keys(JSON.parse(lock).packages), ["", "node_modules/typescript"]);
});
