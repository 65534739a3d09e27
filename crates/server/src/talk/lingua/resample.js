// Any rate to 16 kHz: a windowed sinc, so that what lies above the half of the new rate is gone and does not fold back.
/** Zero crossings of the sinc on each side; more is sharper and slower. */
const CROSSINGS = 16;
/** Places of the kernel kept for each sample of its reach; between them a straight line is good to 100 dB. */
const FINE = 512;
/** Makes samples of another rate, block after block, as if they were one. */
export class Resampler {
    from;
    to;
    #reach;
    /** One side of the kernel. */
    #kernel;
    /** Input that is still needed, how much before it is gone, and how much was put out. Counted, since sums drift. */
    #rest;
    #gone = 0;
    #made = 0;
    constructor(from, to = 16_000) {
        if (!(from >= 4_000 && from <= 384_000 && to >= 4_000))
            throw new RangeError(`no rate: ${from}`);
        this.from = from;
        this.to = to;
        // Going down, what the new rate cannot hold is filtered out; a little room for the slope.
        const cutoff = Math.min(1, to / from) * 0.94;
        this.#reach = Math.ceil(CROSSINGS / cutoff);
        this.#kernel = Float32Array.from({ length: this.#reach * FINE + 2 }, (_, i) => kernel(i / FINE, this.#reach, cutoff));
        this.#rest = new Float32Array(this.#reach);
    }
    /** The samples that can be said for certain by now. */
    push(block) {
        if (this.from === this.to)
            return block;
        const input = new Float32Array(this.#rest.length + block.length);
        input.set(this.#rest);
        input.set(block, this.#rest.length);
        const place = (n) => this.#reach + ((this.#made + n) * this.from) / this.to - this.#gone;
        const ready = Math.max(0, Math.ceil((input.length - this.#reach - place(0)) / (this.from / this.to)));
        const output = new Float32Array(ready);
        for (let i = 0; i < ready; i += 1)
            output[i] = this.#sample(input, place(i));
        const drop = Math.max(0, Math.min(input.length, Math.floor(place(ready)) - this.#reach));
        this.#rest = input.slice(drop);
        this.#gone += drop;
        this.#made += ready;
        return output;
    }
    /** What is still inside, with silence behind it. */
    flush() {
        if (this.from === this.to)
            return new Float32Array(0);
        return this.push(new Float32Array(this.#reach));
    }
    #sample(input, at) {
        const first = Math.max(0, Math.ceil(at - this.#reach));
        const last = Math.min(input.length - 1, Math.floor(at + this.#reach));
        let sum = 0;
        for (let n = first; n <= last; n += 1) {
            const place = Math.abs(n - at) * FINE;
            const i = Math.floor(place);
            const [low, high] = [this.#kernel[i], this.#kernel[i + 1]];
            sum += input[n] * (low + (high - low) * (place - i));
        }
        return sum;
    }
}
/** A sinc under a Blackman window. */
function kernel(distance, reach, cutoff) {
    if (distance > reach)
        return 0;
    const x = Math.PI * distance * cutoff;
    const sinc = x < 1e-9 ? 1 : Math.sin(x) / x;
    const part = distance / reach;
    const window = 0.42 + 0.5 * Math.cos(Math.PI * part) + 0.08 * Math.cos(2 * Math.PI * part);
    return cutoff * sinc * window;
}
/** Samples from -1 to 1 as 16-bit little-endian. */
export function toPcm16(samples) {
    const bytes = new Uint8Array(samples.length * 2);
    const view = new DataView(bytes.buffer);
    samples.forEach((sample, i) => {
        const held = Math.max(-1, Math.min(1, sample));
        view.setInt16(i * 2, Math.round(held < 0 ? held * 32768 : held * 32767), true);
    });
    return bytes;
}
/** The other way round; half a sample at the end is left out. */
export function fromPcm16(bytes) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const samples = new Float32Array(bytes.byteLength >> 1);
    for (let i = 0; i < samples.length; i += 1)
        samples[i] = view.getInt16(i * 2, true) / 32768;
    return samples;
}
