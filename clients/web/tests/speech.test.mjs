// Real speech: a voice in the microphone of a real Chromium, real engines behind the scheduler, Spanish in the ear.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { Emitter } from "../dist/emitter.js";
import { Resampler, fromPcm16 } from "../dist/resample.js";
import { Session } from "../dist/session.js";
import { Talker } from "../dist/talker.js";
import { chromium } from "./support/chromium.mjs";
import { serve, sleep, started, until } from "./support/lingua.mjs";
import { TestSocket } from "./support/websocket.mjs";

const node = fileURLToPath(new URL("../../python/examples/speech_node/run.sh", import.meta.url));
const home = process.env.LINGUA_SPEECH_HOME ?? fileURLToPath(new URL("../../../target/python", import.meta.url));

/** What is said, and words that the Spanish must have one of. */
const SENTENCES = [
  ["The train to Madrid leaves at ten o'clock in the morning.", /tren|madrid|mañana/i],
  ["The doctor will see you tomorrow afternoon.", /médico|doctor|mañana|tarde/i],
  ["The book is on the table in the kitchen.", /libro|mesa|cocina/i],
];

/** Samples of these sentences in an English voice, with so much silence behind each, and their rate. */
function voice(folder, sentences, silenceMs) {
  const parts = sentences.map(([text], n) => {
    const file = join(folder, `${n}.wav`);
    execFileSync("espeak-ng", ["-v", "en-us", "-s", "140", "-w", file, text]);
    return readFileSync(file);
  });
  const rate = parts[0].readUInt32LE(24);
  const silence = Buffer.alloc(Math.round((rate * silenceMs) / 1000) * 2);
  return { rate, pcm: Buffer.concat([silence, ...parts.flatMap((wav) => [wav.subarray(44), silence])]) };
}

function wav({ rate, pcm }) {
  const head = Buffer.from("RIFF....WAVEfmt ....................data....");
  head.writeUInt32LE(36 + pcm.length, 4);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(rate, 24);
  head.writeUInt32LE(rate * 2, 28);
  head.writeUInt16LE(2, 32);
  head.writeUInt16LE(16, 34);
  head.write("data", 36);
  head.writeUInt32LE(pcm.length, 40);
  return Buffer.concat([head, pcm]);
}

async function stage(t) {
  const folder = mkdtempSync(join(tmpdir(), "lingua-web-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const scheduler = await serve(t);
  await started(t, node, ["--url", scheduler.url.replace("http", "ws"), "--node-id", "speech"], { LINGUA_SPEECH_HOME: home });
  const served = async () => (await (await fetch(`${scheduler.url}/v1/languages`)).json()).pairs.some(({ src, tgt, speech }) => src === "en" && tgt === "es" && speech);
  for (let left = 600; !(await served()); left -= 1) {
    assert.ok(left > 0, "the speech node never came");
    await sleep(100);
  }
  return { folder, scheduler };
}

test("sentences are cut where the voice pauses, and each becomes Spanish that can be heard", async (t) => {
  const { folder, scheduler } = await stage(t);
  const session = new Session({ url: scheduler.url, direction: { src: "en", tgt: "es" }, connect: (url) => new TestSocket(url), maxUtteranceMs: 20_000 });
  t.after(() => session.close());
  const [results, missing, partials] = [[], [], []];
  session.on("result", (result) => results.push(result));
  session.on("missing", (one) => missing.push(one));
  session.on("partial", (one) => partials.push(one));
  session.open();
  const frames = new (class extends Emitter { plays(frame) { this.emit("frame", frame); } })();
  const talker = new Talker(session, frames, { codec: "pcm16" });
  const turns = [];
  talker.on("ended", ({ turn, by }) => {
    turns.push([turn, by]);
    talker.start({ src: "en", tgt: "es" }, "silence");
  });
  talker.start({ src: "en", tgt: "es" }, "silence");
  for (const [n, sentence] of SENTENCES.entries()) {
    const { rate, pcm } = voice(folder, [sentence], 1_300);
    const samples = new Resampler(rate).push(fromPcm16(new Uint8Array(pcm)));
    for (let at = 0; at + 320 <= samples.length; at += 320) {
      // The hiss of a room: no microphone is as silent as a file.
      frames.plays(samples.slice(at, at + 320).map((sample) => sample + 0.0008 * (Math.random() - 0.5)));
      if (at % 3_200 === 0) await sleep(50);
    }
    // Whoever is spoken to listens first.
    await until(() => `translation ${n}: ${JSON.stringify(missing)} ${JSON.stringify(results.map(({ text }) => text))}`, () => results.length === n + 1, 60_000);
  }
  assert.deepEqual(turns.slice(0, 3), [[0, "silence"], [1, "silence"], [2, "silence"]]);
  results.forEach((result, n) => {
    assert.match(result.text, SENTENCES[n][1], `${result.heard} => ${result.text}`);
    const spoken = fromPcm16(result.audio);
    const power = Math.sqrt(spoken.reduce((sum, sample) => sum + sample * sample, 0) / spoken.length);
    assert.equal(result.audioFormat, "pcm16");
    assert.ok(spoken.length / result.audioRate > 0.8 && power > 0.01, `${spoken.length / result.audioRate} s, ${power}`);
    t.diagnostic(`${result.heard} => ${result.text} (${result.latencyMs} ms after the last word)`);
  });
  assert.ok(partials.length > 0 && missing.length === 0);
});

test("a voice in the microphone of the talk page is answered in Spanish, which is played", async (t) => {
  const { folder, scheduler } = await stage(t);
  const file = join(folder, "microphone.wav");
  writeFileSync(file, wav(voice(folder, SENTENCES.slice(0, 1), 1_500)));
  const browser = await chromium(t, ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream", `--use-file-for-fake-audio-capture=${file}`]);
  await browser.go(`${scheduler.url}/talk`);
  await browser.until("it is ready", "return document.querySelector('#state').dataset.state === 'open' && document.querySelector('#lang-b').value === 'es'");
  await browser.click("#side-a .talk");
  const rows = await browser.until("it was played", "const rows = [...document.querySelectorAll('#past li')]; return rows[0]?.dataset.playedS && rows.map((row) => ({ ...row.dataset, text: row.innerText }))");
  const [{ text, playedS, peak, latencyMs }] = rows;
  assert.match(text, SENTENCES[0][1], text);
  assert.ok(Number(playedS) > 0.8 && Number(peak) > 0.05, JSON.stringify(rows));
  t.diagnostic(`${text.replaceAll("\n", " | ")} (${latencyMs} ms, played ${playedS} s)`);
  assert.deepEqual(await browser.complaints(), []);
});
