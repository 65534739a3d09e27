// Where speech begins and ends, by its energy over a noise floor that is learned on the way.
const SILENT_DB = -100;
/** The noise is believed to grow only slowly, or a long word would become noise; it falls at once. */
const RISE_DB_PER_S = 4;
const RISE_IN_SPEECH_DB_PER_S = 0.5;
const FALL = 0.3;
/** Nobody speaks so long without a gap between two sounds: what was never below is the noise of the room. */
const GAPLESS_MS = 1_500;
/** The loudness of samples from -1 to 1, in dB of full scale. */
export function loudness(frame) {
    if (frame.length === 0)
        return SILENT_DB;
    let mean = 0;
    for (const sample of frame)
        mean += sample;
    mean /= frame.length;
    let power = 0;
    // Cheap microphones have an offset, which is no sound.
    for (const sample of frame)
        power += (sample - mean) ** 2;
    return Math.max(SILENT_DB, 10 * Math.log10(power / frame.length + 1e-12));
}
/** Listens to frame after frame. */
export class Vad {
    #o;
    #noise = null;
    #speaking = false;
    /** Speech in a row before it counts, and silence in a row before it ends. */
    #loudMs = 0;
    #quietMs = 0;
    /** The latest levels, for the lowest of them. */
    #latest = [];
    constructor(options = {}) {
        this.#o = {
            frameMs: 20, startDb: 12, stopDb: 7, minDb: -52, attackMs: 60, hangoverMs: 800,
            ...options,
        };
    }
    get speaking() {
        return this.#speaking;
    }
    /** Another turn begins; the noise of the room stays known. */
    reset() {
        this.#speaking = false;
        this.#loudMs = 0;
        this.#quietMs = 0;
    }
    push(frame) {
        const o = this.#o;
        const level = loudness(frame);
        const noise = this.#learn(level);
        const bar = Math.max(o.minDb, noise + (this.#speaking ? o.stopDb : o.startDb));
        const loud = level > bar;
        let started = false;
        let ended = false;
        if (!this.#speaking) {
            this.#loudMs = loud ? this.#loudMs + o.frameMs : Math.max(0, this.#loudMs - o.frameMs);
            started = this.#loudMs >= o.attackMs;
            if (started) {
                this.#speaking = true;
                this.#quietMs = 0;
            }
        }
        else {
            this.#quietMs = loud ? 0 : this.#quietMs + o.frameMs;
            ended = this.#quietMs >= o.hangoverMs;
            if (ended)
                this.reset();
        }
        return { speech: this.#speaking || ended, started, ended, levelDb: level, noiseDb: noise };
    }
    #learn(level) {
        // Before anything is known a room is not louder than this: whoever speaks at once is heard.
        const noise = this.#noise ?? Math.min(level, -50);
        const rise = ((this.#speaking ? RISE_IN_SPEECH_DB_PER_S : RISE_DB_PER_S) * this.#o.frameMs) / 1000;
        const next = level < noise ? noise + (level - noise) * FALL : Math.min(level, noise + rise);
        this.#latest.push(level);
        const isLong = this.#latest.length > GAPLESS_MS / this.#o.frameMs;
        if (isLong)
            this.#latest.shift();
        this.#noise = Math.max(-90, next, isLong ? Math.min(...this.#latest) : -90);
        return this.#noise;
    }
}
