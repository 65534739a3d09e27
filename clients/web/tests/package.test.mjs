// What is published, what the README shows, and the copy that the scheduler serves.

import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";

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

/** Runs npm; what it prints. Not blocking: a test serves a file meanwhile. */
async function npm(cwd, ...args) {
  const { stdout } = await promisify(execFile)("npm", [...args, "--no-audit", "--no-fund", "--prefer-offline"], { cwd, encoding: "utf8" });
  return stdout;
}

/** A project that installs the library from there, and what it can import then. */
async function installed(folder, name, from) {
  const project = join(folder, name);
  mkdirSync(project);
  writeFileSync(join(project, "package.json"), JSON.stringify({ name, private: true, type: "module" }));
  await npm(project, "install", from);
  const app = join(project, "app.mjs");
  writeFileSync(app, 'import * as lingua from "lingua-web";\nconsole.log(Object.keys(lingua).join(" "), import.meta.resolve("lingua-web/worklet.js"));\n');
  const { stdout } = await promisify(execFile)(process.execPath, [app], { cwd: project, encoding: "utf8" });
  assert.ok(existsSync(join(project, "node_modules/lingua-web/dist/index.d.ts")), "its types");
  return stdout;
}

test("npm install works from a folder of sources, a packed file, its address and its folder", async (t) => {
  const folder = fresh(t);
  // As a clone has it: nothing compiled and nothing installed.
  const clone = join(folder, "clone");
  const left = new Set(["node_modules", "dist", "tests"].map((name) => join(here, name)));
  cpSync(here, clone, { recursive: true, filter: (path) => !left.has(path) && !path.endsWith(".tgz") });
  assert.equal(existsSync(join(clone, "dist")) || existsSync(join(clone, "node_modules")), false);
  const wanted = await installed(folder, "from-folder", clone);
  assert.match(wanted, /Microphone.*Playback.*Session.*worklet\.js/);

  const [packed] = JSON.parse(await npm(clone, "pack", "--json", "--silent", "--pack-destination", folder));
  const file = join(folder, packed.filename);
  assert.match(await installed(folder, "from-file", file), /Session.*worklet\.js/);
  execFileSync("tar", ["-xzf", file], { cwd: folder });
  assert.match(await installed(folder, "from-unpacked", join(folder, "package")), /Session.*worklet\.js/);

  const server = createServer((_, answer) => answer.end(readFileSync(file))).listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  assert.match(await installed(folder, "from-address", `http://127.0.0.1:${server.address().port}/lingua-web.tgz`), /Session.*worklet\.js/);
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
