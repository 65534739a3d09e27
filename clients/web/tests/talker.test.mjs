// From frames to pieces, with a microphone that plays what its test says.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Emitter } from "../dist/emitter.js";
import { Session } from "../dist/session.js";
import { Talker } from "../dist/talker.js";
import { settle, staged } from "./support/fakes.mjs";

const EN = { src: "en", tgt: "zh" };
const ZH = { src: "zh", tgt: "en" };

class Frames extends Emitter {
  count = 0;

  /** So many milliseconds of a voice, or of a quiet room. */
  async plays(ms, isVoice) {
    for (let at = 0; at < ms; at += 20) {
      this.count += 1;
      this.emit("frame", Float32Array.from({ length: 320 }, (_, n) => (isVoice ? 0.3 : 0.0005) * Math.sin(n * 0.07 + this.count)));
      await settle();
    }
  }
}

async function talking(options = {}) {
  const stage = staged(Session);
  stage.session.open();
  await stage.accept();
  const frames = new Frames();
  const talker = new Talker(stage.session, frames, { codec: "pcm16", ...options });
  const heard = [];
  for (const name of ["began", "speech", "ended", "failed"]) talker.on(name, (event) => heard.push({ name, ...event }));
  const ended = () => heard.filter(({ name }) => name === "ended").map(({ direction, turn, by }) => [direction.src, turn, by]);
  /** Milliseconds of speech that were sent. */
  const sentMs = () => stage.socket.of("audio").reduce((sum, { audio }) => sum + audio.length / 32, 0);
  return { ...stage, frames, talker, heard, ended, sentMs };
}

test("while the button is held everything is sent, and then the end of it", async () => {
  const { frames, talker, ended, sentMs, sockets } = await talking();
  await frames.plays(500, false);
  assert.equal(sentMs(), 0, "nobody asked for it");
  talker.start(EN, "release");
  await frames.plays(300, false);
  await frames.plays(700, true);
  talker.stop();
  await settle();
  assert.equal(sentMs(), 1_000);
  assert.equal(sockets[0].of("audio").at(-1).final, true);
  assert.deepEqual(ended(), [["en", 0, "release"]]);
  await frames.plays(500, true);
  assert.equal(sentMs(), 1_000, "the microphone is open, and nobody listens");
});

test("a turn that waits for speech sends it with a little before it, and ends by itself", async () => {
  const { frames, talker, heard, ended, sentMs } = await talking();
  await frames.plays(500, false);
  talker.start(EN, "silence");
  await frames.plays(2_000, false);
  assert.equal(sentMs(), 0);
  await frames.plays(1_000, true);
  await frames.plays(2_000, false);
  assert.deepEqual(heard.map(({ name }) => name), ["began", "speech", "ended"]);
  assert.deepEqual(ended(), [["en", 0, "silence"]]);
  // The speech, 300 ms from before it was known to be some, and the silence that ended it.
  assert.ok(sentMs() >= 1_900 && sentMs() <= 2_200, `${sentMs()} ms`);
});

test("a turn in which nobody speaks sends nothing and says so", async () => {
  const { frames, talker, ended, sentMs, sockets } = await talking({ patienceMs: 3_000 });
  talker.start(EN, "silence");
  await frames.plays(4_000, false);
  assert.deepEqual([ended(), sentMs(), sockets[0].of("audio").length], [[["en", null, "nothing"]], 0, 0]);
});

test("a slip of the finger is no turn, and a tap becomes one that ends by silence", async () => {
  const { frames, talker, ended, sentMs } = await talking();
  talker.start(EN, "release");
  await frames.plays(100, true);
  talker.stop();
  await settle();
  assert.deepEqual([ended(), sentMs()], [[["en", null, "nothing"]], 0]);
  talker.start(EN, "release");
  await frames.plays(100, false);
  talker.letGo();
  await frames.plays(600, true);
  await frames.plays(1_500, false);
  assert.deepEqual(ended().at(-1), ["en", 0, "silence"]);
});

test("nobody talks for ever", async () => {
  const { frames, talker, ended, sentMs } = await talking({ maxTurnMs: 5_000 });
  talker.start(EN, "release");
  await frames.plays(6_000, true);
  assert.deepEqual([ended(), sentMs()], [[["en", 0, "length"]], 5_000]);
});

test("who begins to speak ends the turn of the other one", async () => {
  const { frames, talker, ended, session, sockets } = await talking();
  talker.start(EN, "release");
  await frames.plays(400, true);
  talker.start(ZH, "release");
  await frames.plays(400, true);
  assert.deepEqual([ended(), talker.talking, session.direction], [[["en", 0, "release"]], ZH, ZH]);
  talker.close();
  await settle();
  assert.deepEqual(ended(), [["en", 0, "release"], ["zh", 1, "release"]]);
  const first = sockets[0].of("audio");
  assert.equal(first.at(-1).final, true, "the other direction waits until this is safe");
  await sockets[0].says({ type: "audio_ack", seq: first.at(-1).seq });
  assert.equal(sockets[0].of("set_languages").length, 1);
});
