// The library against real schedulers with simulated nodes, which tell of every sentence whether it came whole.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { Session } from "../dist/session.js";
import { echo, node, redis, run, sentence, serve, sleep, until } from "./support/lingua.mjs";
import { TestSocket } from "./support/websocket.mjs";

const EN = { src: "en", tgt: "zh" };
const ZH = { src: "zh", tgt: "en" };

/** A session that writes down what it hears. */
function speaker(t, url, options = {}) {
  const events = [];
  const session = new Session({ url, direction: EN, connect: (address) => new TestSocket(address), ...options });
  for (const name of ["state", "opened", "partial", "result", "missing", "step", "problem", "dropped", "token"]) session.on(name, (event) => events.push({ name, ...event }));
  t.after(() => session.close());
  const of = (name) => events.filter((event) => event.name === name);
  return {
    session, events, of,
    endings: () => events.filter(({ name }) => name === "result" || name === "missing"),
    async opens() {
      session.open();
      await until(() => `it is open: ${JSON.stringify(events)}`, () => session.state === "open");
    },
    /** Says a sentence as fast as it is told to. */
    async says(number, pieces = 8, pace = 10) {
      for (const piece of sentence(number, pieces)) {
        session.say(piece);
        await sleep(pace);
      }
      return session.end();
    },
    async hears(count) {
      await until(() => `${count} endings: ${JSON.stringify(events.map(({ name, index, event, code, reason, state, why, message, turn, resumed, resent }) => ({ name, index, event, code, reason, state, why, message, turn, resumed, resent })), (key, value) => (key === "audio" ? value.length : value))}`, () => this.endings().length >= count, 60_000);
    },
  };
}

/** What a scheduler says honestly of a machine that has no time for it. */
const BUSY = ["dependency_down", "all_nodes_busy", "gap_timeout"];

/** And of a result that died with the instance that was killed with it. */
const KILLED = [...BUSY, "job_failed"];

class Overloaded extends Error {}

/** Once more on a machine that was too busy for the first time. Nothing lost, doubled, torn or out of order is ever forgiven. */
function calmly(name, scenario) {
  test(name, async (t) => {
    for (let left = 3; ; left -= 1) {
      try {
        return await scenario(t);
      } catch (error) {
        if (!(error instanceof Overloaded) || left === 1) throw error;
        t.diagnostic(`once more: ${error.message}`);
      }
    }
  });
}

/** Fails unless these sentences came back whole, once and in this order. */
function assertWhole(endings, lengths, forgiven = BUSY) {
  assert.deepEqual(endings.map(({ turn }) => turn), lengths.map((_, turn) => turn));
  const honest = endings.filter(({ name, reason }) => name === "missing" && forgiven.includes(reason));
  const wanted = lengths.map((pieces, number) => ["result", `7/${number}`, echo(sentence(number, pieces))]);
  const got = endings.map(({ name, extra, reason }) => [name, extra?.lab?.mark ?? reason, { bytes: extra?.lab?.bytes, hash: extra?.lab?.hash }]);
  const isAnswered = (_, n) => !honest.includes(endings[n]);
  assert.deepEqual(got.filter(isAnswered), wanted.filter(isAnswered));
  if (honest.length > 0) throw new Overloaded(honest.map(({ turn, reason }) => `${turn}: ${reason}`).join(", "));
}

calmly("sentences come back translated, whole and in order", async (t) => {
  const scheduler = await serve(t);
  await node(t, scheduler.url);
  const one = speaker(t, scheduler.url);
  await one.opens();
  for (let n = 0; n < 5; n += 1) await one.says(n, 4, 2);
  await one.hears(5);
  assertWhole(one.endings(), [4, 4, 4, 4, 4]);
  const [first] = one.of("result");
  assert.ok(first.text.length > 0 && first.latencyMs > 0 && first.direction.src === "en");
  assert.ok(one.of("step").some(({ event }) => event === "DISPATCHED"));
  await one.session.close();
  assert.deepEqual([one.of("dropped"), one.of("problem"), one.session.state], [[], [], "closed"]);
});

calmly("two people take turns in two directions", async (t) => {
  const scheduler = await serve(t);
  await node(t, scheduler.url);
  const two = speaker(t, scheduler.url);
  await two.opens();
  for (let n = 0; n < 6; n += 1) {
    two.session.setDirection(n % 2 === 0 ? EN : ZH);
    await two.says(n, 3, 1);
  }
  await two.hears(6);
  assertWhole(two.endings(), [3, 3, 3, 3, 3, 3]);
  assert.deepEqual(two.endings().map(({ direction }) => direction.src), ["en", "zh", "en", "zh", "en", "zh"]);
});

test("a pair that nobody serves is said to be so, with its code", async (t) => {
  const scheduler = await serve(t);
  await node(t, scheduler.url);
  const lonely = speaker(t, scheduler.url, { direction: { src: "ko", tgt: "en" } });
  await lonely.opens();
  await lonely.says(0, 2);
  await lonely.hears(1);
  const [missing] = lonely.of("missing");
  assert.deepEqual([missing.reason, missing.code], ["no_capable_node", "NO_CAPABLE_NODE"]);
  assert.match(missing.hint, /ko/);
});

calmly("a connection that breaks in mid-sentence splits nothing", async (t) => {
  const scheduler = await serve(t);
  await node(t, scheduler.url);
  const sockets = [];
  const broken = speaker(t, scheduler.url, {
    backoff: { firstMs: 20 },
    connect: (url) => {
      sockets.push(new TestSocket(url));
      return sockets.at(-1);
    },
  });
  await broken.opens();
  const id = broken.session.sessionId;
  for (let n = 0; n < 4; n += 1) {
    const pieces = sentence(n, 6);
    for (const [p, piece] of pieces.entries()) {
      broken.session.say(piece);
      await sleep(5);
      if (p === n + 1) sockets.at(-1).close();
    }
    broken.session.end();
  }
  await broken.hears(4);
  assertWhole(broken.endings(), [6, 6, 6, 6]);
  assert.ok(sockets.length > 2, `${sockets.length} connections`);
  assert.equal(broken.session.sessionId, id);
});

calmly("a scheduler that restarts and knows nothing any more loses no sentence", async (t) => {
  const first = await serve(t);
  await node(t, first.url);
  const patient = speaker(t, first.url, { backoff: { firstMs: 50, maxMs: 400 } });
  await patient.opens();
  await patient.says(0, 4, 2);
  await patient.hears(1);
  await patient.says(1, 4, 2);
  const pieces = sentence(2, 6);
  for (const piece of pieces.slice(0, 3)) patient.session.say(piece);
  await first.kill("SIGKILL");
  for (const piece of pieces.slice(3)) patient.session.say(piece);
  patient.session.end();
  await until(() => "it says so", () => patient.session.state === "reconnecting");
  await serve(t, { listen: first.url.replace("http://", "") });
  await patient.hears(3);
  // The node may be back a moment after the speaker: then the first sentences have nobody.
  assertWhole(patient.endings().slice(0, 1), [4]);
  const turns = patient.endings().map(({ turn }) => turn);
  assert.deepEqual(turns, [0, 1, 2], "each turn once, in order");
  assert.equal(patient.of("opened").at(-1).resumed, false);
  assert.deepEqual(patient.of("dropped"), []);
});

calmly("the conversation goes on when its instance is killed under it", async (t) => {
  const store = await redis(t);
  const instances = [await serve(t, { store, more: ["--instance-id", "one"] }), await serve(t, { store, more: ["--instance-id", "two"] })];
  // A node on each; both serve both.
  for (const [n, { url }] of instances.entries()) await node(t, url, ["--name", `sim-${n}`, "--slots", "8"]);
  const talker = speaker(t, instances.map(({ url }) => url), { backoff: { firstMs: 50, maxMs: 500 } });
  await talker.opens();
  const id = talker.session.sessionId;
  const lengths = [];
  let killed = null;
  for (let n = 0; n < 12; n += 1) {
    const length = 4 + (n % 5);
    lengths.push(length);
    const pieces = sentence(n, length);
    for (const [p, piece] of pieces.entries()) {
      talker.session.say(piece);
      await sleep(25);
      // In the middle of the fifth sentence, with others on their way.
      if (n === 4 && p === 2) killed = instances[0].kill("SIGKILL");
    }
    talker.session.end();
  }
  await killed;
  await talker.hears(12);
  assertWhole(talker.endings(), lengths, KILLED);
  assert.equal(talker.session.sessionId, id, "the same session");
  assert.deepEqual([talker.of("opened").length, talker.of("opened")[1].recovered, talker.of("opened")[1].resent > 0], [2, true, true]);
  assert.deepEqual(talker.of("dropped"), []);
});

calmly("an instance that stops in order hands the conversation over", async (t) => {
  const store = await redis(t);
  const instances = [await serve(t, { store, more: ["--instance-id", "one"] }), await serve(t, { store, more: ["--instance-id", "two"] })];
  for (const [n, { url }] of instances.entries()) await node(t, url, ["--name", `sim-${n}`, "--slots", "8"]);
  const talker = speaker(t, instances.map(({ url }) => url), { backoff: { firstMs: 50, maxMs: 500 } });
  await talker.opens();
  const lengths = Array.from({ length: 8 }, () => 5);
  for (const n of lengths.keys()) {
    for (const [p, piece] of sentence(n, 5).entries()) {
      talker.session.say(piece);
      await sleep(20);
      if (n === 3 && p === 2) instances[0].child.kill("SIGTERM");
    }
    talker.session.end();
  }
  await talker.hears(8);
  assertWhole(talker.endings(), lengths);
  assert.deepEqual([talker.of("opened").length, talker.of("opened")[1].resumed], [2, true]);
});

test("a scheduler that asks for tokens is shown one, and a newer one before it expires", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "lingua-web-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  await run(t, ["token", "key", "--name", "k", "--out", folder]);
  const mint = (role, subject, more = []) => run(t, ["token", "mint", "--role", role, "--subject", subject, "--key", join(folder, "k.key.pem"), ...more]);
  const config = join(folder, "lingua.toml");
  writeFileSync(config, `[identity]\nkey_files = [${JSON.stringify(join(folder, "k.pub.pem"))}]\n`);
  const scheduler = await serve(t, { more: ["--config", config] });
  await node(t, scheduler.url, ["--name", "sim"], { LINGUA_TOKEN: await mint("node", "sim") });

  const nobody = speaker(t, scheduler.url);
  nobody.session.open();
  await until(() => "it is asked who it is", () => nobody.session.state === "locked");
  assert.equal(nobody.of("state").at(-1).code, "UNAUTHORIZED");
  nobody.session.authorize(await mint("session", "app", ["--tenant", "acme"]));
  await until(() => "it is let in", () => nobody.session.state === "open");
  await nobody.says(0, 3, 2);
  await nobody.hears(1);
  assertWhole(nobody.endings(), [3]);
  nobody.session.authorize(await mint("session", "app", ["--tenant", "acme"]));
  await until(() => "the newer one is taken", () => nobody.of("token").length === 1);
  assert.ok(nobody.of("token")[0].expiresMs > Date.now());

  const wrong = speaker(t, scheduler.url, { token: await mint("admin", "ops") });
  wrong.session.open();
  await until(() => "an administrator is no speaker", () => wrong.session.state === "closed");
  assert.equal(wrong.of("problem")[0].code, "FORBIDDEN");
});
