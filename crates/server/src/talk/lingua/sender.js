// What goes out on the present connection, and when: never more than it takes, and in the direction it is said in.
import { audioChunk, audioFrame, same } from "./wire.js";
const LOOK_AGAIN_MS = 50;
/** A scheduler that asks to hold on and does not say for how long. */
const HELD_MS = 1_000;
export class Sender {
    #outbox;
    #hearing;
    #clock;
    #maxBytes;
    #tell;
    #idle;
    #line = null;
    /** What the scheduler takes the next piece for. */
    #direction = { src: "", tgt: "" };
    /** Nothing is sent before this. */
    #heldUntil = 0;
    #crowded = false;
    #stopLook = () => { };
    /** Calls `idle` whenever all that may be sent is. */
    constructor(outbox, hearing, clock, maxBytes, tell, idle) {
        this.#outbox = outbox;
        this.#hearing = hearing;
        this.#clock = clock;
        this.#maxBytes = maxBytes;
        this.#tell = tell;
        this.#idle = idle;
    }
    /** A connection that was opened in this direction. */
    attach(line, direction) {
        this.detach();
        this.#line = line;
        this.#direction = direction;
        this.#heldUntil = 0;
        this.#crowded = false;
    }
    detach() {
        this.#stopLook();
        this.#line = null;
    }
    /** The scheduler asks to hold on. */
    hold(action, resumeAfterMs) {
        this.#tell({ source: "scheduler", action, resumeAfterMs: resumeAfterMs ?? null });
        this.#heldUntil = this.#clock.now() + (resumeAfterMs ?? HELD_MS);
    }
    /** Sends what may be sent. */
    pump() {
        for (let line = this.#line; line; line = this.#line) {
            const wait = this.#heldUntil - this.#clock.now();
            if (wait > 0)
                return this.#look(wait);
            if (this.#isCrowded(line.buffered))
                return this.#look(LOOK_AGAIN_MS);
            const piece = this.#outbox.next();
            if (!piece)
                return this.#idle(line);
            const { seq, audio, final, turn } = piece;
            if (!same(turn.direction, this.#direction)) {
                const { src, tgt, targets } = (this.#direction = turn.direction);
                line.send({ type: "set_languages", src_lang: src, tgt_lang: tgt, ...(targets && { targets }) });
            }
            turn.firstIndex ??= this.#hearing.nextIndex;
            line.send(line.binary ? audioFrame(seq, audio, final, this.#clock.now() - turn.beganAt) : audioChunk(seq, audio, final));
        }
    }
    #look(ms) {
        this.#stopLook();
        this.#stopLook = this.#clock.after(ms, () => this.pump());
    }
    #isCrowded(buffered) {
        const now = buffered > (this.#crowded ? this.#maxBytes / 2 : this.#maxBytes);
        if (now !== this.#crowded) {
            this.#crowded = now;
            this.#tell({ source: "socket", action: now ? "PAUSE" : "RESUME", resumeAfterMs: null });
        }
        return now;
    }
}
