import assert from "node:assert/strict";
import { test } from "node:test";

import { Session } from "../dist/session.js";
import { bytes, settle, staged } from "./support/fakes.mjs";

const result = (index, more = {}) => ({ type: "translation_result", utterance_index: index, text_asr: `heard ${index}`, text_translated: `means ${index}`, ...more });
const audio = (socket) => socket.of("audio").map(({ seq, final }) => (final ? `${seq}.` : `${seq}`)).join(" ");

async function opened(options) {
  const stage = staged(Session, options);
  stage.session.open();
  await stage.accept();
  return stage;
}

test("the first message has all that the scheduler needs, and the token is nowhere else", async () => {
  const stage = staged(Session, { token: "secret", codec: "opus", pauseMs: 900, maxUtteranceMs: 20_000, tenantId: "acme" });
  stage.session.open();
  assert.equal(stage.session.state, "connecting");
  await stage.socket.opens();
  const [init] = stage.socket.of("session_init");
  assert.deepEqual(init.supports, ["binary", "audio_ack", "resume", "events"]);
  assert.deepEqual([init.src_lang, init.tgt_lang, init.codec, init.token, init.pause_ms, init.max_utterance_ms, init.tenant_id], ["en", "zh", "opus", "secret", 900, 20_000, "acme"]);
  assert.equal("resume_token" in init, false);
  assert.equal(stage.socket.url, "ws://one/ws/session");
  assert.equal(stage.socket.url.includes("secret"), false);
});

test("what the person takes and its profile are said when the session opens", async () => {
  const stage = await opened({ accept: ["speech", "captions"], profile: "fast" });
  const [init] = stage.socket.of("session_init");
  assert.deepEqual([init.accept, init.profile], [["speech", "captions"], "fast"]);
});

test("a text is translated in place of speech and told apart from what is spoken around it", async () => {
  const stage = await opened();
  const { session, socket } = stage;
  session.say(bytes(1));
  const turn = session.end();
  assert.equal(session.type("  "), false, "there is nothing to translate");
  assert.equal(session.type("早上好", { src: "zh", tgt: "en" }), true);
  assert.deepEqual(socket.of("text_utterance"), [{ type: "text_utterance", src_lang: "zh", tgt_lang: "en", text: "早上好" }]);
  await socket.says({ type: "finalized", utterance_index: 1 });
  await socket.says(result(0, { audio_ack: 1 }));
  await socket.says(result(1, { src_lang: "zh", tgt_lang: "en", via: "fr", form: "captions" }));
  const heard = stage.of("result").map(({ index, turn, direction, via, form }) => ({ index, turn, direction, via, form }));
  assert.deepEqual(heard, [
    { index: 0, turn, direction: { src: "en", tgt: "zh" }, via: null, form: null },
    { index: 1, turn: null, direction: { src: "zh", tgt: "en" }, via: "fr", form: "captions" },
  ]);
  await socket.ends(1006);
  assert.equal(session.type("not now"), false, "and it was not sent");
});

test("what is said before there is a connection is said when there is one", async () => {
  const stage = staged(Session);
  stage.session.open();
  assert.equal(stage.session.say(bytes(1, 2)), true);
  stage.session.end();
  assert.equal(stage.socket.sent.length, 0);
  await stage.accept();
  assert.equal(audio(stage.socket), "0 1.");
});

test("without an agreement on binary frames speech goes as JSON", async () => {
  const stage = staged(Session);
  stage.session.open();
  await stage.accept({ use_binary_frame: false });
  stage.session.say(bytes(255));
  assert.deepEqual(stage.socket.of("audio_chunk"), [{ type: "audio_chunk", seq: 0, is_final: false, payload: "/w==" }]);
});

test("after a loss everything that is not acknowledged goes again, with the token of the newest answer", async () => {
  const { session, clock, ...stage } = await opened();
  for (let i = 0; i < 4; i += 1) session.say(bytes(i));
  await stage.sockets[0].says({ type: "audio_ack", seq: 1 });
  await stage.sockets[0].ends(1006);
  assert.equal(session.state, "reconnecting");
  session.say(bytes(9));
  session.end();
  await clock.pass(1_000);
  const second = stage.sockets[1];
  assert.equal(second.url, "ws://two/ws/session", "the other instance");
  await stage.accept({ recovered: true, resume_token: "r-2" });
  assert.equal(second.of("session_init")[0].resume_token, "r-1");
  assert.equal("last_index" in second.of("session_init")[0], false, "no ending was heard");
  assert.equal(audio(second), "2 3 4 5.");
  assert.deepEqual(stage.of("opened").map(({ resumed, recovered, resent }) => [resumed, recovered, resent]), [[false, false, 0], [true, true, 4]]);
  await second.says(result(0, { audio_ack: 5 }));
  await second.ends();
  await clock.pass(1_000);
  await stage.accept({ recovered: true });
  assert.equal(stage.sockets[2].of("session_init")[0].resume_token, "r-2");
  assert.equal(stage.sockets[2].of("session_init")[0].last_index, 0);
  assert.equal(audio(stage.sockets[2]), "");
});

test("an ending that is told again is heard once, and the order stays", async () => {
  const { session, clock, ...stage } = await opened();
  for (let i = 0; i < 3; i += 1) {
    session.say(bytes(i));
    session.end();
  }
  await stage.sockets[0].says(result(0, { audio_ack: 1 }));
  await stage.sockets[0].says({ type: "missing_result", utterance_index: 1, reason: "silence_detected", audio_ack: 3 });
  await stage.sockets[0].ends();
  await clock.pass(1_000);
  await stage.accept({ recovered: true });
  for (const again of [result(0, { audio_ack: 1 }), { type: "missing_result", utterance_index: 1, reason: "silence_detected" }, result(2, { audio_ack: 5 }), result(2, { audio_ack: 5 })]) {
    await stage.sockets[1].says(again);
  }
  const endings = stage.events.filter(({ name }) => name === "result" || name === "missing");
  assert.deepEqual(endings.map(({ name, index, turn }) => [name, index, turn]), [["result", 0, 0], ["missing", 1, 1], ["result", 2, 2]]);
  assert.equal(session.unconfirmed.bytes, 0);
});

test("a scheduler that lost the session hears everything once more that has no ending", async () => {
  const { session, clock, ...stage } = await opened();
  session.say(bytes(1));
  session.end();
  session.say(bytes(2));
  session.end();
  session.say(bytes(3));
  await stage.sockets[0].says({ type: "audio_ack", seq: 3 });
  await stage.sockets[0].says(result(0, { audio_ack: 1 }));
  await stage.sockets[0].ends();
  await clock.pass(1_000);
  await stage.accept({ session_id: "s-2", recovered: false, resume_token: "r-9" });
  assert.deepEqual(stage.sockets[1].of("audio").map(({ seq, final, audio: said }) => [seq, final, ...said]), [[0, false, 2], [1, true], [2, false, 3]]);
  session.end();
  await stage.sockets[1].says(result(0, { audio_ack: 1 }));
  await stage.sockets[1].says(result(1, { audio_ack: 3 }));
  assert.deepEqual(stage.of("result").map(({ turn }) => turn), [0, 1, 2], "each turn once");
  assert.deepEqual(stage.of("dropped"), []);
});

test("in a new session nothing is said that nobody waits for any more, and that is told", async () => {
  const { session, clock, ...stage } = await opened({ keepMs: 30_000 });
  session.say(bytes(1));
  session.end();
  await stage.sockets[0].ends();
  await clock.pass(40_000);
  session.say(bytes(2));
  await stage.accept({ session_id: "s-2", recovered: false });
  assert.deepEqual(stage.of("dropped").map(({ turn, reason }) => [turn, reason]), [[0, "stale"]]);
  assert.deepEqual(stage.sockets.at(-1).of("audio").map(({ audio: said }) => said), [[2]]);
});

test("the other direction waits until everything before it is safe", async () => {
  const { session, clock, ...stage } = await opened();
  session.say(bytes(1));
  session.end();
  session.setDirection({ src: "zh", tgt: "en" });
  session.say(bytes(2));
  session.end();
  assert.equal(audio(stage.sockets[0]), "0 1.");
  assert.equal(stage.sockets[0].of("set_languages").length, 0);
  // A connection that breaks now opens in the direction of what goes again.
  await stage.sockets[0].ends();
  await clock.pass(1_000);
  await stage.accept({ recovered: true });
  assert.deepEqual([stage.sockets[1].of("session_init")[0].src_lang, audio(stage.sockets[1])], ["en", "0 1."]);
  await stage.sockets[1].says({ type: "ui_event", utterance_index: 0, event: "INPUT_ENDED" });
  await stage.sockets[1].says({ type: "audio_ack", seq: 1 });
  assert.deepEqual(stage.sockets[1].of("set_languages"), [{ type: "set_languages", src_lang: "zh", tgt_lang: "en" }]);
  assert.equal(audio(stage.sockets[1]), "0 1. 2 3.");
  // What is heard of each is known by its direction, whatever comes first.
  await stage.sockets[1].says({ type: "asr_partial", utterance_index: 1, text: "ni hao", is_final: false });
  await stage.sockets[1].says({ type: "asr_partial", utterance_index: 0, text: "hel", is_final: false });
  assert.deepEqual(stage.of("partial").map(({ direction, text }) => [direction.src, text]), [["zh", "ni hao"], ["en", "hel"]]);
  await stage.sockets[1].says(result(0, { audio_ack: 1 }));
  await stage.sockets[1].says(result(1, { audio_ack: 3 }));
  assert.deepEqual(stage.of("result").map(({ direction }) => direction.src), ["en", "zh"]);
  await stage.sockets[1].ends();
  await clock.pass(1_000);
  await stage.accept({ recovered: true });
  assert.equal(stage.sockets[2].of("session_init")[0].src_lang, "zh");
});

test("how long a translation took is counted from the last word", async () => {
  const { session, clock, ...stage } = await opened();
  session.say(bytes(1));
  await clock.pass(2_000);
  await stage.sockets[0].says(result(0, { audio_ack: 0 }));
  session.say(bytes(2));
  session.end();
  await clock.pass(350);
  await stage.sockets[0].says(result(1, { audio_ack: 2, part_index: 1, tts_audio: "AAEC", tts_format: "pcm16", extra: { tts_sample_rate: 24_000 } }));
  const [part, whole] = stage.of("result");
  assert.deepEqual([part.latencyMs, whole.latencyMs, part.turn, whole.turn, whole.part], [null, 350, 0, 0, 1]);
  assert.deepEqual([[...whole.audio], whole.audioFormat, whole.audioRate], [[0, 1, 2], "pcm16", 24_000]);
});

test("why an utterance has no translation is told with its code", async () => {
  const { session, ...stage } = await opened();
  session.say(bytes(1));
  session.end();
  const hint = "No node supports semantic(en) + nmt(en->zh).";
  await stage.sockets[0].says({ type: "ui_event", utterance_index: 0, event: "ERROR", status: "error", error_code: "NO_CAPABLE_NODE", hint });
  await stage.sockets[0].says({ type: "missing_result", utterance_index: 0, reason: "no_capable_node", audio_ack: 1 });
  const [missing] = stage.of("missing");
  assert.deepEqual([missing.reason, missing.code, missing.hint], ["no_capable_node", "NO_CAPABLE_NODE", hint]);
});

test("what cannot be kept is refused and told, and what is safe makes room first", async () => {
  const { session, ...stage } = await opened({ keepBytes: 10 });
  assert.equal(session.say(new Uint8Array(6)), true);
  assert.equal(session.say(new Uint8Array(6)), false);
  assert.deepEqual(stage.of("dropped").map(({ bytes: count, turn, reason }) => [count, turn, reason]), [[6, 0, "memory"]]);
  await stage.sockets[0].says({ type: "audio_ack", seq: 0 });
  assert.equal(session.say(new Uint8Array(6)), true);
  assert.equal(session.end(), 0);
  assert.equal(audio(stage.sockets[0]), "0 1 2.");
});

test("what was given up for room is told if the session is lost, and not otherwise", async () => {
  for (const isLost of [true, false]) {
    const { session, clock, ...stage } = await opened({ keepBytes: 10 });
    session.say(new Uint8Array(6));
    session.end();
    await stage.sockets[0].says({ type: "audio_ack", seq: 1 });
    session.say(new Uint8Array(6));
    if (!isLost) await stage.sockets[0].says(result(0, { audio_ack: 1 }));
    await stage.sockets[0].ends();
    await clock.pass(1_000);
    await stage.accept({ session_id: "s-2", recovered: false });
    assert.deepEqual(stage.of("dropped").map(({ turn, reason }) => [turn, reason]), isLost ? [[0, "memory"]] : []);
  }
});

test("a full socket gets no more, which is told, and goes on when there is room", async () => {
  const { session, clock, ...stage } = await opened({ socketBytes: 100 });
  stage.sockets[0].bufferedAmount = 101;
  session.say(bytes(1));
  session.say(bytes(2));
  assert.equal(audio(stage.sockets[0]), "");
  stage.sockets[0].bufferedAmount = 60;
  await clock.pass(200);
  assert.equal(audio(stage.sockets[0]), "", "not before there is real room");
  stage.sockets[0].bufferedAmount = 10;
  await clock.pass(200);
  assert.equal(audio(stage.sockets[0]), "0 1");
  assert.deepEqual(stage.of("backpressure").map(({ source, action }) => [source, action]), [["socket", "PAUSE"], ["socket", "RESUME"]]);
});

test("a scheduler that asks to hold on is heard", async () => {
  const { session, clock, ...stage } = await opened();
  await stage.sockets[0].says({ type: "backpressure", action: "PAUSE", resume_after_ms: 400 });
  session.say(bytes(1));
  await clock.pass(300);
  assert.equal(audio(stage.sockets[0]), "");
  await clock.pass(200);
  assert.equal(audio(stage.sockets[0]), "0");
  assert.deepEqual(stage.of("backpressure")[0].resumeAfterMs, 400);
});

test("a scheduler that is full says when to come back, and nobody comes earlier", async () => {
  const { session, clock, sockets, of } = staged(Session);
  session.open();
  await sockets[0].opens();
  await sockets[0].says({ type: "error", code: "QUOTA_EXCEEDED", message: "too many sessions", retry_after_ms: 4_000 });
  assert.deepEqual(of("problem").map(({ code, retryAfterMs, fatal }) => [code, retryAfterMs, fatal]), [["QUOTA_EXCEEDED", 4_000, false]]);
  assert.deepEqual([session.state, of("state").at(-1).code], ["connecting", "QUOTA_EXCEEDED"]);
  await clock.pass(3_999);
  assert.equal(sockets.length, 1);
  await clock.pass(1_100);
  assert.equal(sockets.length, 2);
});

test("a close that says when to come back is heard too", async () => {
  const { clock, sockets } = await opened();
  await sockets[0].ends(1001, '{"retry_after_ms":3000}');
  await clock.pass(2_999);
  assert.equal(sockets.length, 1);
  await clock.pass(1_000);
  assert.equal(sockets.length, 2);
});

test("an instance that stops is left at once for another one, and heard until that one answers", async () => {
  const stage = await opened();
  const { session, sockets } = stage;
  session.say(bytes(1));
  session.end();
  session.say(bytes(2));
  await sockets[0].says({ type: "go_away", deadline_ms: 32_000, reason: "the instance is stopping" });
  assert.equal(session.state, "reconnecting");
  await sockets[0].says({ type: "audio_ack", seq: 1 });
  await sockets[0].says(result(0, { audio_ack: 1 }));
  assert.equal(stage.of("result").length, 1);
  await stage.clock.pass(301);
  assert.equal(sockets[1].url, "ws://two/ws/session");
  assert.equal(sockets[0].closed, null, "not before the other one is there");
  await stage.accept({ recovered: true });
  assert.equal(sockets[1].of("session_init")[0].last_index, 0);
  assert.equal(sockets[0].closed, 1000);
  assert.equal(audio(sockets[1]), "2");
  await sockets[0].says(result(1));
  assert.equal(stage.of("result").length, 1, "what was left is not heard any more");
  await sockets[1].ends(4001);
  assert.equal(session.state, "closed", "the scheduler knows the two apart: this is somebody else");
});

test("a wrong token waits for another one, and then the session goes on", async () => {
  const stage = staged(Session, { token: "old" });
  stage.session.open();
  await stage.socket.opens();
  await stage.socket.says({ type: "error", code: "UNAUTHORIZED", message: "the token has expired" });
  assert.deepEqual([stage.session.state, stage.of("state").at(-1).why], ["locked", "the token has expired"]);
  await stage.clock.pass(60_000);
  assert.equal(stage.sockets.length, 1, "nothing is tried with a token that is not good");
  stage.session.say(bytes(1));
  stage.session.authorize("new");
  await stage.accept();
  assert.equal(stage.socket.of("session_init")[0].token, "new");
  assert.equal(audio(stage.socket), "0");
});

test("a newer token is shown on the open connection, and a function is asked each time", async () => {
  const stage = await opened({ token: "first" });
  stage.session.authorize("second");
  assert.deepEqual(stage.socket.of("auth"), [{ type: "auth", token: "second" }]);
  await stage.socket.says({ type: "auth_ack", expires_ms: 99 });
  assert.deepEqual(stage.of("token").map(({ expiresMs }) => expiresMs), [99]);
  let asked = 0;
  const other = await opened({ token: async () => `t${++asked}` });
  await other.socket.ends(1008, "the token has expired");
  await other.clock.pass(1_000);
  await other.socket.opens();
  assert.equal(other.socket.of("session_init")[0].token, "t2");
});

test("what cannot be made right by trying again ends the session with its code", async () => {
  const stage = staged(Session);
  stage.session.open();
  await stage.socket.opens();
  await stage.socket.says({ type: "error", code: "INVALID_LANGUAGE", message: "src_lang: xx" });
  assert.deepEqual([stage.session.state, stage.of("problem")[0].code, stage.of("problem")[0].fatal], ["closed", "INVALID_LANGUAGE", true]);
  assert.equal(stage.session.say(bytes(1)), false);
  assert.equal(stage.of("dropped").at(-1).reason, "closed");
  await stage.clock.pass(60_000);
  assert.equal(stage.sockets.length, 1);
});

test("whoever is superseded does not fight for the session", async () => {
  const stage = await opened();
  await stage.socket.ends(4001, "a newer connection");
  await stage.clock.pass(60_000);
  assert.deepEqual([stage.session.state, stage.of("state").at(-1).code, stage.sockets.length], ["closed", "SESSION_SUPERSEDED", 1]);
});

test("an attempt of our own that was given up and comes late does not end the session", async () => {
  const stage = await opened();
  await stage.socket.ends();
  await stage.clock.pass(1_000);
  await stage.socket.opens();
  await stage.socket.ends(1006);
  await stage.clock.pass(1_000);
  await stage.accept({ recovered: true });
  await stage.socket.ends(4001, "a newer connection");
  assert.equal(stage.session.state, "reconnecting");
  await stage.clock.pass(2_000);
  await stage.accept({ recovered: true });
  await stage.socket.ends(4001, "a newer connection");
  assert.equal(stage.session.state, "closed", "the second time it is somebody else");
});

test("a scheduler that never answers is left, and one that falls silent too", async () => {
  const stage = staged(Session);
  stage.session.open();
  await stage.socket.opens();
  await stage.clock.pass(10_500);
  assert.equal(stage.sockets.length, 2);
  await stage.accept();
  await stage.clock.pass(20_000);
  assert.equal(stage.socket.of("client_heartbeat").length, 1);
  await stage.socket.says({ type: "server_heartbeat", timestamp: 1 });
  await stage.clock.pass(41_000);
  assert.equal(stage.sockets.length, 2);
  await stage.clock.pass(20_000);
  assert.equal(stage.sockets.length, 3, "a half-open connection is found by its silence");
});

test("waits between attempts grow, and a good connection begins anew", async () => {
  const stage = await opened();
  const waits = [];
  for (let i = 0; i < 4; i += 1) {
    await stage.socket.ends();
    waits.push(stage.of("state").at(-1).retryInMs);
    await stage.clock.pass(waits.at(-1));
  }
  assert.deepEqual(waits, [187.5, 375, 750, 1_500]);
  await stage.accept({ recovered: true });
  await stage.clock.pass(5_000);
  await stage.socket.ends();
  assert.equal(stage.of("state").at(-1).retryInMs, 187.5);
});

test("somebody who knows that the network is back need not wait", async () => {
  const stage = await opened();
  await stage.socket.ends();
  stage.session.retry();
  assert.equal(stage.sockets.length, 2);
});

test("speech that the scheduler dropped is told, and what a stopping one lets go of is said again", async () => {
  const { session, ...stage } = await opened();
  session.say(bytes(1));
  const details = { first_seq: 0, last_seq: 0, bytes: 1, reason: "held_bytes" };
  await stage.sockets[0].says({ type: "error", code: "QUOTA_EXCEEDED", message: "too much", details });
  assert.deepEqual(stage.of("dropped").map(({ turn, bytes: count, reason }) => [turn, count, reason]), [[0, 1, "scheduler"]]);
  await stage.sockets[0].says({ type: "error", code: "DRAINING", message: "stopping", details });
  assert.equal(stage.of("dropped").length, 1);
  assert.equal(session.state, "open");
});

test("a refusal of long ago is not why a connection ends", async () => {
  const stage = await opened({ token: "good" });
  stage.session.authorize("bad");
  await stage.socket.says({ type: "error", code: "UNAUTHORIZED", message: "the token is not good here", retry_after_ms: 60_000 });
  await stage.clock.pass(5_000);
  await stage.socket.ends(1006);
  assert.deepEqual([stage.session.state, stage.of("state").at(-1).retryInMs], ["reconnecting", 187.5]);
});

test("a page that may not connect at all is told so", async () => {
  const stage = staged(Session, { connect: () => { throw new Error("forbidden by the policy"); } });
  stage.session.open();
  assert.deepEqual([stage.session.state, stage.of("state").at(-1).why], ["closed", "forbidden by the policy"]);
});

test("closing waits for what is open, and says goodbye", async () => {
  const { session, clock, ...stage } = await opened();
  session.say(bytes(1));
  const closing = session.close();
  assert.equal(session.state, "closing");
  assert.equal(audio(stage.sockets[0]), "0 1.");
  assert.equal(stage.sockets[0].of("session_close").length, 0, "not before it is safe");
  await stage.sockets[0].says({ type: "audio_ack", seq: 1 });
  assert.equal(stage.sockets[0].of("session_close").length, 1);
  await stage.sockets[0].says(result(0, { audio_ack: 1 }));
  await stage.sockets[0].says({ type: "session_close_ack" });
  await stage.sockets[0].ends(1000);
  await closing;
  assert.deepEqual([session.state, stage.of("result").length, stage.of("dropped").length], ["closed", 1, 0]);
  await clock.pass(60_000);
  assert.equal(stage.sockets.length, 1);
});

test("a goodbye that is never answered ends all the same, and what is lost by it is told", async () => {
  const { session, clock, ...stage } = await opened();
  session.say(bytes(1));
  const closing = session.close();
  await clock.pass(6_000);
  await closing;
  assert.deepEqual(stage.of("dropped").map(({ turn, reason }) => [turn, reason]), [[0, "closed"]]);
});

test("the loudspeaker is told of, with what it plays", async () => {
  const { session, ...stage } = await opened();
  session.ttsStarted({ traceId: "t", groupId: "g" });
  session.ttsEnded();
  assert.deepEqual(stage.sockets[0].of("tts_started")[0].group_id, "g");
  assert.equal(stage.sockets[0].of("tts_play_ended").length, 1);
});

test("nonsense from the other side changes nothing", async () => {
  const { session, ...stage } = await opened();
  session.say(bytes(1));
  for (const text of ["", "{", '{"type":"audio_ack","seq":null}', '{"type":"audio_ack","seq":4000000000}', '{"type":"who_knows"}', '{"type":"translation_result"}']) await stage.sockets[0].says(text);
  session.say(bytes(2));
  assert.equal(audio(stage.sockets[0]), "0 1");
  assert.deepEqual([session.state, stage.of("result")], ["open", []]);
});

test("a listener that throws hurts nobody else", async () => {
  const errors = [];
  const before = process.listeners("uncaughtException");
  process.removeAllListeners("uncaughtException");
  process.on("uncaughtException", (error) => errors.push(error.message));
  try {
    const { session, ...stage } = await opened();
    session.on("result", () => { throw new Error("mine"); });
    let heard = 0;
    session.on("result", () => { heard += 1; });
    session.say(bytes(1));
    await stage.sockets[0].says(result(0, { audio_ack: 0 }));
    await settle();
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual([heard, errors], [1, ["mine"]]);
  } finally {
    process.removeAllListeners("uncaughtException");
    before.forEach((listener) => process.on("uncaughtException", listener));
  }
});

test("several targets have their own order, and a resume says what was heard of each", async () => {
  const direction = { src: "en", tgt: "zh", targets: ["zh", "de"] };
  const { session, clock, events, ...stage } = await opened({ direction });
  assert.deepEqual(stage.sockets[0].of("session_init")[0].targets, ["zh", "de"]);
  session.say(bytes(1));
  session.end();
  const spoken = (tgt) => ({ src_lang: "en", tgt_lang: tgt });
  await stage.sockets[0].says(result(0, spoken("zh")));
  await stage.sockets[0].says(result(1, spoken("zh")));
  await stage.sockets[0].says({ type: "missing_result", utterance_index: 0, reason: "no_capable_node", ...spoken("de") });
  await stage.sockets[0].says(result(1, spoken("zh")));
  const told = () => events.filter(({ name }) => name === "result" || name === "missing").map(({ name, index, direction: { tgt } }) => `${name} ${index} ${tgt}`);
  assert.deepEqual(told(), ["result 0 zh", "result 1 zh", "missing 0 de"]);
  await stage.sockets[0].ends(1006);
  await clock.pass(1_000);
  await stage.accept({ recovered: true });
  const [init] = stage.sockets[1].of("session_init");
  assert.deepEqual([init.last_indexes, "last_index" in init], [{ zh: 1, de: 0 }, false]);
  await stage.sockets[1].says(result(1, { ...spoken("de"), audio_ack: 1 }));
  assert.equal(told().at(-1), "result 1 de");
  session.setDirection({ src: "en", tgt: "de", targets: ["de", "fr"] });
  session.say(bytes(2));
  assert.deepEqual(stage.sockets[1].of("set_languages"), [{ type: "set_languages", src_lang: "en", tgt_lang: "de", targets: ["de", "fr"] }]);
});
