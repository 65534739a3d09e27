// Real schedulers, simulated nodes and a Redis, each a process that ends with its test.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const target = fileURLToPath(new URL("../../../../target", import.meta.url));
const BINARY = [process.env.LINGUA_BIN, join(target, "release/lingua"), join(target, "debug/lingua")].find((path) => path && existsSync(path));
if (!BINARY) throw new Error("no lingua binary: build it with 'cargo build -p lingua-server', or name one in LINGUA_BIN");

class Process {
  constructor(t, program, args, env = {}) {
    const clean = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("LINGUA_")));
    this.child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"], env: { ...clean, ...env } });
    this.said = "";
    this.child.stderr.on("data", (text) => { this.said = (this.said + text).slice(-4_000); });
    this.ended = once(this.child, "exit");
    this.lines = createInterface({ input: this.child.stdout });
    t.after(() => this.kill("SIGKILL"));
  }

  /** The first line that has this in it. */
  async line(part) {
    for await (const line of this.lines) if (line.includes(part)) return line;
    throw new Error(`it ended before it said ${part}: ${this.said}`);
  }

  async kill(signal) {
    if (this.child.exitCode === null && this.child.signalCode === null) this.child.kill(signal);
    await this.ended;
  }
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

export async function redis(t) {
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), "lingua-web-"));
  const server = new Process(t, "redis-server", ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder]);
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  await server.line("Ready to accept connections");
  return `redis://127.0.0.1:${port}/0`;
}

/** A scheduler; `url` is where it listens. */
export async function serve(t, { store = "memory", listen = "127.0.0.1:0", more = [] } = {}) {
  const scheduler = new Process(t, BINARY, ["serve", "--listen", listen, "--store", store, ...more]);
  const line = await scheduler.line("listens on");
  return Object.assign(scheduler, { url: /http:\/\/[\d.:]+/.exec(line)[0] });
}

/** A simulated node that is registered. */
export async function node(t, url, args = [], env = {}) {
  const started = new Process(t, BINARY, ["node", "--url", url, "--p50-ms", "60", "--p99-ms", "61", ...args], env);
  await started.line("is registered");
  return started;
}

/** Any other program that ends with its test. */
export async function started(t, program, args, env) {
  return new Process(t, program, args, env);
}

/** Runs a command to its end and gives what it printed. */
export async function run(t, args) {
  const process = new Process(t, BINARY, args);
  let text = "";
  for await (const line of process.lines) text += `${line}\n`;
  const [code] = await process.ended;
  if (code !== 0) throw new Error(`${args.join(" ")}: ${process.said}`);
  return text.trim();
}

// ---- sentences that are known again, as the simulated nodes know them

const MAGIC = [0x7f, 0x4c, 0x67, 0x4d, 0x6b, 0x80, 0x01, 0xfe];

/** So many pieces of 100 ms of pcm16; the first begins with the number of the sentence. */
export function sentence(number, pieces) {
  return Array.from({ length: pieces }, (_, p) => {
    const piece = Buffer.alloc(3_200);
    for (let i = 0; i < 1_600; i += 1) piece.writeInt16LE(Math.round(3_000 * Math.sin((i + p * 1_600) * (0.05 + 0.01 * number))), i * 2);
    if (p === 0) {
      piece.set(MAGIC);
      piece.writeUInt32LE(7, 8);
      piece.writeUInt32LE(number, 12);
    }
    return new Uint8Array(piece);
  });
}

/** What a node tells of a sentence that came whole. */
export function echo(pieces) {
  let hash = 0xcbf29ce484222325n;
  let bytes = 0;
  for (const piece of pieces) {
    bytes += piece.length;
    for (const byte of piece) hash = ((hash ^ BigInt(byte)) * 0x100000001b3n) & 0xffffffffffffffffn;
  }
  return { bytes, hash: hash.toString(16).padStart(16, "0") };
}

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Waits until it is so. */
export async function until(what, ready, ms = 30_000) {
  const end = Date.now() + ms;
  while (!ready()) {
    if (Date.now() > end) throw new Error(`never: ${what()}`);
    await sleep(20);
  }
}
