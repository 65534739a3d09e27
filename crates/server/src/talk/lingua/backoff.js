// How long to wait before the next attempt to connect.
/** A scheduler says how long to wait; nobody waits longer than this for its word. */
const MAX_ASKED_MS = 120_000;
/** Waits that double, each drawn at random: a thousand clients that lost one instance come back one by one. */
export class Backoff {
    #first;
    #max;
    #random;
    #attempts = 0;
    constructor({ firstMs = 250, maxMs = 10_000, random = Math.random } = {}) {
        this.#first = firstMs;
        this.#max = maxMs;
        this.#random = random;
    }
    /** Attempts since the last success. */
    get attempts() {
        return this.#attempts;
    }
    /** The wait before the next attempt: never shorter than what was asked for, and a little longer than that. */
    next(askedMs = 0) {
        const top = Math.min(this.#max, this.#first * 2 ** Math.min(this.#attempts, 30));
        this.#attempts += 1;
        // At least half of it, so that an attempt that fails at once does not become a loop.
        const drawn = top / 2 + this.#random() * (top / 2);
        if (!(askedMs > 0))
            return drawn;
        const asked = Math.min(askedMs, MAX_ASKED_MS);
        return Math.max(drawn, asked * (1 + this.#random() * 0.25));
    }
    /** It worked. */
    reset() {
        this.#attempts = 0;
    }
}
