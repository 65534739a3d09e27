// The loudspeaker: one translation after the other, in the order in which they came.
import { Emitter } from "./emitter.js";
import { decodeOpus } from "./opus.js";
import { fromPcm16 } from "./resample.js";
/** So many translations wait at most: beyond it nobody follows any more. */
const MAX_WAITING = 32;
const LOOK_MS = 50;
export class Playback extends Emitter {
    #context = null;
    #analyser = null;
    #waiting = [];
    #stopCurrent = null;
    #running = false;
    get isPlaying() {
        return this.#running;
    }
    /** Has to be called from a touch or a key once, or browsers stay silent. */
    async unlock() {
        this.#context ??= new AudioContext();
        if (this.#context.state === "suspended")
            await this.#context.resume();
    }
    /** Plays it when those before it are done. False: there is nothing to play, or no room. */
    play(item) {
        if (item.audio.length === 0)
            return false;
        if (this.#waiting.length >= MAX_WAITING) {
            this.emit("refused", { item });
            return false;
        }
        this.#waiting.push(item);
        void this.#run();
        return true;
    }
    /** Silence, now. */
    stop() {
        this.#waiting.length = 0;
        this.#stopCurrent?.();
    }
    /** How loud it is now, from 0 to 1. */
    level() {
        if (!this.#analyser || !this.#stopCurrent)
            return 0;
        const samples = new Float32Array(this.#analyser.fftSize);
        this.#analyser.getFloatTimeDomainData(samples);
        return samples.reduce((peak, sample) => Math.max(peak, Math.abs(sample)), 0);
    }
    async #run() {
        if (this.#running)
            return;
        this.#running = true;
        for (let item = this.#waiting.shift(); item; item = this.#waiting.shift()) {
            // What listens must find it over when it is told that the last one ended.
            const isLast = () => void (this.#running = this.#waiting.length > 0);
            try {
                const ended = await this.#one(item);
                isLast();
                this.emit("ended", ended);
            }
            catch (error) {
                isLast();
                this.emit("failed", { item, error: error });
            }
            if (!this.#running)
                return;
        }
        this.#running = false;
    }
    async #one(item) {
        await this.unlock();
        const context = this.#context;
        const buffer = await decode(context, item);
        const analyser = (this.#analyser ??= context.createAnalyser());
        const source = context.createBufferSource();
        source.buffer = buffer;
        source.connect(analyser).connect(context.destination);
        let peak = 0;
        let whole = true;
        const began = context.currentTime;
        const look = setInterval(() => (peak = Math.max(peak, this.level())), LOOK_MS);
        try {
            await new Promise((resolve) => {
                this.#stopCurrent = () => {
                    whole = false;
                    source.stop();
                    resolve();
                };
                source.onended = () => resolve();
                source.start();
                this.emit("started", { item, seconds: buffer.duration });
            });
        }
        finally {
            clearInterval(look);
            this.#stopCurrent = null;
            source.disconnect();
        }
        return { item, seconds: context.currentTime - began, peak, whole };
    }
}
async function decode(context, { audio, audioFormat, audioRate }) {
    const form = audioFormat.toLowerCase();
    // Ogg, WAV, MP3 and the like say themselves what they are.
    if (form !== "pcm16" && form !== "opus")
        return context.decodeAudioData(audio.slice().buffer);
    const { samples, rate } = form === "opus" ? await decodeOpus(audio) : { samples: fromPcm16(audio), rate: audioRate };
    if (samples.length === 0)
        throw new Error("there is no sound in it");
    const buffer = context.createBuffer(1, samples.length, rate);
    buffer.copyToChannel(samples, 0);
    return buffer;
}
