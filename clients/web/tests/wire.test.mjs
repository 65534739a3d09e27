import assert from "node:assert/strict";
import { test } from "node:test";

import { joinPackets, splitPackets } from "../dist/opus.js";
import { sessionUrl } from "../dist/opening.js";
import { audioChunk, audioFrame, fromBase64, parse, retryAfter, toBase64 } from "../dist/wire.js";

test("a piece of speech is twelve bytes and the speech", () => {
  const frame = audioFrame(0x01020304, Uint8Array.of(9, 8, 7), false, 0x0a0b0c0d);
  assert.deepEqual([...frame], [1, 0, 4, 3, 2, 1, 13, 12, 11, 10, 0, 0, 9, 8, 7]);
  assert.equal(audioFrame(1, Uint8Array.of(5), true)[10], 1);
});

test("the end of an utterance is ten bytes", () => {
  assert.deepEqual([...audioFrame(7, new Uint8Array(0), true, 0)], [2, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
});

test("without binary frames a piece is JSON", () => {
  assert.deepEqual(JSON.parse(audioChunk(3, Uint8Array.of(0, 255), false)), { type: "audio_chunk", seq: 3, is_final: false, payload: "AP8=" });
  assert.deepEqual(JSON.parse(audioChunk(4, new Uint8Array(0), true)), { type: "audio_chunk", seq: 4, is_final: true });
});

test("base64 goes both ways, for more than a call takes too", () => {
  for (const length of [0, 1, 2, 3, 8191, 8192, 100_001]) {
    const bytes = Uint8Array.from({ length }, (_, i) => (i * 31) & 255);
    assert.equal(toBase64(bytes), Buffer.from(bytes).toString("base64"));
    assert.deepEqual(fromBase64(toBase64(bytes)), bytes);
  }
  assert.equal(fromBase64("not base64!"), null);
});

test("null is the same as absent, and unknown fields are passed over", () => {
  const message = parse('{"type":"translation_result","utterance_index":3,"text_asr":null,"new":{"deep":1}}');
  assert.equal(message.utterance_index, 3);
  assert.equal("text_asr" in message, false);
});

test("what is not understood is no message", () => {
  for (const text of [
    "", "{", "null", "[]", "3", '"audio_ack"', "{}", '{"type":3}', '{"type":"toString"}', '{"type":"room_joined"}', '{"type":"audio_ack"}', '{"type":"audio_ack","seq":"3"}',
    '{"type":"missing_result","utterance_index":1}', '{"type":"error","code":"X"}',
  ]) assert.equal(parse(text), null, text);
});

test("Opus packets stand behind their lengths", () => {
  const packets = [Uint8Array.of(1), new Uint8Array(300).fill(2), new Uint8Array(0)];
  const run = joinPackets(packets);
  assert.deepEqual([...run.subarray(0, 5)], [1, 0, 1, 44, 1]);
  assert.deepEqual(splitPackets(run).map((packet) => [...packet]), packets.map((packet) => [...packet]));
  assert.deepEqual(splitPackets(run.subarray(0, 10)).length, 1, "what is cut off is left out");
  assert.throws(() => joinPackets([new Uint8Array(65_536)]), RangeError);
});

test("the socket is found from any address of the scheduler, and no secret is in it", () => {
  assert.equal(sessionUrl("http://h:1"), "ws://h:1/ws/session");
  assert.equal(sessionUrl("https://h/below/"), "wss://h/below/ws/session");
  assert.equal(sessionUrl("ws://h:1/ws/session"), "ws://h:1/ws/session");
  for (const bad of ["http://user:word@h", "http://h?token=abc", "ftp://h", "h:1"]) assert.throws(() => sessionUrl(bad), TypeError, bad);
});

test("the reason of a close may say when to come back", () => {
  assert.equal(retryAfter('{"retry_after_ms":1500}'), 1500);
  assert.equal(retryAfter("superseded"), 0);
});
