import assert from "node:assert/strict";
import { test } from "node:test";

import { Backoff } from "../dist/backoff.js";
import { Resampler, fromPcm16, toPcm16 } from "../dist/resample.js";
import { Vad, loudness } from "../dist/vad.js";

const TAU = 2 * Math.PI;
const sine = (hz, rate, seconds, loud = 0.5) => Float32Array.from({ length: Math.round(rate * seconds) }, (_, n) => loud * Math.sin((TAU * hz * n) / rate));

/** How much of a frequency there is: the amplitude of a sine. */
function amount(samples, hz, rate) {
  let [re, im, weight] = [0, 0, 0];
  samples.forEach((sample, n) => {
    const window = 0.5 - 0.5 * Math.cos((TAU * n) / (samples.length - 1));
    re += window * sample * Math.cos((TAU * hz * n) / rate);
    im += window * sample * Math.sin((TAU * hz * n) / rate);
    weight += window;
  });
  return (2 * Math.hypot(re, im)) / weight;
}

/** In blocks of odd lengths, as they come. */
function resample(samples, from) {
  const resampler = new Resampler(from);
  const parts = [];
  for (let at = 0, size = 1; at < samples.length; at += size, size = (size * 7 + 3) % 1500 + 1) parts.push(...resampler.push(samples.slice(at, at + size)));
  parts.push(...resampler.flush());
  return Float32Array.from(parts);
}

const db = (ratio) => 20 * Math.log10(ratio + 1e-12);

for (const rate of [8_000, 11_025, 22_050, 44_100, 48_000, 96_000]) {
  test(`from ${rate} Hz, what is in the voice stays as loud as it was`, () => {
    for (const hz of [100, 440, 1_000, 3_000, ...(rate > 16_000 ? [6_000] : [])]) {
      const out = resample(sine(hz, rate, 1), rate);
      assert.ok(Math.abs(out.length - 16_000) <= 40, `${out.length} samples`);
      const error = db(amount(out.slice(1_000, -1_000), hz, 16_000) / 0.5);
      assert.ok(Math.abs(error) < 0.2, `${hz} Hz is ${error.toFixed(2)} dB off`);
    }
  });
}

test("what the new rate cannot hold is gone, and does not come back as another tone", () => {
  for (const [rate, hz] of [[48_000, 9_000], [48_000, 12_000], [48_000, 15_000], [44_100, 10_500], [96_000, 40_000]]) {
    const out = resample(sine(hz, rate, 1), rate).slice(1_000, -1_000);
    const left = db(out.reduce((peak, sample) => Math.max(peak, Math.abs(sample)), 0) / 0.5);
    assert.ok(left < -55, `${hz} Hz at ${rate}: ${left.toFixed(1)} dB are left`);
  }
});

test("blocks of any size give the same samples", () => {
  const input = sine(700, 44_100, 0.5);
  const whole = new Resampler(44_100);
  const once = Float32Array.from([...whole.push(input), ...whole.flush()]);
  const pieces = resample(input, 44_100);
  assert.equal(pieces.length, once.length);
  const worst = pieces.reduce((most, sample, n) => Math.max(most, Math.abs(sample - once[n])), 0);
  assert.ok(worst < 1e-6, `${worst}`);
});

test("a rate that is none is refused", () => {
  for (const rate of [0, -1, NaN, 1e9]) assert.throws(() => new Resampler(rate), RangeError);
});

test("samples become 16 bits and come back", () => {
  assert.deepEqual([...toPcm16(Float32Array.of(0, 1, -1, 2, -2))], [0, 0, 255, 127, 0, 128, 255, 127, 0, 128]);
  const samples = sine(300, 16_000, 0.05);
  const back = fromPcm16(toPcm16(samples));
  samples.forEach((sample, n) => assert.ok(Math.abs(sample - back[n]) < 1e-4));
  assert.equal(fromPcm16(Uint8Array.of(1, 2, 3)).length, 1);
});

// ---- where speech begins and ends

let seed = 1;
const noise = () => ((seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31) / 2 ** 30 - 1);

/** Frames of 20 ms of a room in which somebody speaks at times: [ms, loudness of the voice]. */
function room(parts, hiss) {
  const frames = [];
  for (const [ms, voice] of parts) {
    for (let at = 0; at < ms; at += 20) {
      frames.push(Float32Array.from({ length: 320 }, (_, n) => hiss * noise() + voice * Math.sin((TAU * 180 * (frames.length * 320 + n)) / 16_000)));
    }
  }
  return frames;
}

function turns(frames, options) {
  const vad = new Vad(options);
  const found = [];
  frames.forEach((frame, n) => {
    const heard = vad.push(frame);
    if (heard.started) found.push([n * 20, null]);
    if (heard.ended) found.at(-1)[1] = n * 20;
  });
  return found;
}

for (const [what, hiss] of [["a quiet room", 0.0005], ["an office", 0.004], ["a loud street", 0.03]]) {
  test(`in ${what} speech begins at once and ends after the hangover`, () => {
    const found = turns(room([[4_000, 0], [1_200, 0.3], [2_000, 0]], hiss));
    // Only what is loud from the first moment may be taken for speech, until it is known better.
    const early = found.filter(([began]) => began < 4_000);
    assert.ok(early.length === 0 || (hiss > 0.01 && early.length === 1 && early[0][1] < 2_600), JSON.stringify(found));
    const [[began, ended], ...more] = found.slice(early.length);
    assert.deepEqual(more, []);
    assert.ok(began >= 4_000 && began <= 4_120, `began at ${began}`);
    assert.ok(ended >= 5_900 && ended <= 6_100, `ended at ${ended}`);
  });
}

test("a breath between words ends nothing", () => {
  const found = turns(room([[1_000, 0], [600, 0.2], [500, 0], [600, 0.2], [500, 0], [400, 0.2], [2_000, 0]], 0.003));
  assert.equal(found.length, 1, JSON.stringify(found));
});

test("a click is no speech, and neither is a room without anybody", () => {
  assert.deepEqual(turns(room([[1_000, 0], [20, 0.5], [1_000, 0], [20, 0.5], [3_000, 0]], 0.003)), []);
  assert.deepEqual(turns(room([[10_000, 0]], 0.02)), []);
  assert.deepEqual(turns(room([[3_000, 0]], 0)), []);
});

test("whoever speaks at once is heard", () => {
  const [[began]] = turns(room([[1_000, 0.25], [1_500, 0]], 0.003));
  assert.ok(began <= 100, `${began}`);
});

test("a noise that stays becomes the silence of the room", () => {
  const vad = new Vad();
  // A fan is switched on: taken for speech at first, for silence in the end.
  const frames = room([[1_000, 0]], 0.001).concat(room([[3_000, 0]], 0.02));
  const heard = frames.map((frame) => vad.push(frame));
  assert.equal(heard.some((one) => one.started), true);
  assert.equal(heard.at(-1).speech, false);
  const again = room([[600, 0.4], [1_500, 0]], 0.02).map((frame) => vad.push(frame));
  assert.ok(again.some((one) => one.started) && again.some((one) => one.ended));
});

test("another turn begins without what is left of the last one", () => {
  const vad = new Vad();
  room([[500, 0], [500, 0.3]], 0.002).forEach((frame) => vad.push(frame));
  assert.equal(vad.speaking, true);
  vad.reset();
  assert.equal(vad.speaking, false);
});

test("loudness is that of full scale, without what is no sound", () => {
  assert.ok(Math.abs(loudness(sine(400, 16_000, 0.02, 1)) + 3.01) < 0.1);
  assert.equal(loudness(new Float32Array(320).fill(0.7)), -100);
  assert.equal(loudness(new Float32Array(0)), -100);
});

// ---- waiting

test("waits double up to a ceiling, and are never the same for all", () => {
  const waits = (random) => {
    const backoff = new Backoff({ firstMs: 100, maxMs: 1_000, random: () => random });
    return Array.from({ length: 6 }, () => backoff.next());
  };
  assert.deepEqual(waits(0), [50, 100, 200, 400, 500, 500]);
  assert.deepEqual(waits(1), [100, 200, 400, 800, 1_000, 1_000]);
});

test("nobody comes back before the scheduler wants it, nor in the same moment", () => {
  const backoff = (random) => new Backoff({ firstMs: 100, maxMs: 1_000, random: () => random });
  assert.equal(backoff(0).next(5_000), 5_000);
  assert.equal(backoff(1).next(5_000), 6_250);
  assert.equal(backoff(1).next(10), 100);
  assert.equal(backoff(0).next(1e12), 120_000, "nobody is sent away for ever");
});

test("a success makes the next attempt a first one", () => {
  const backoff = new Backoff({ firstMs: 100, random: () => 1 });
  backoff.next();
  backoff.next();
  assert.equal(backoff.attempts, 2);
  backoff.reset();
  assert.equal(backoff.next(), 100);
});
