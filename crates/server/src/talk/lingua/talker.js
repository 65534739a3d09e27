// From the microphone to the session: one turn at a time, which ends when it is let go of or when silence follows speech.
import { Emitter } from "./emitter.js";
import { FRAME_MS } from "./microphone.js";
import { encoder } from "./opus.js";
import { Vad } from "./vad.js";
/** A press shorter than this is a slip of the finger. */
const SLIP_MS = 240;
export class Talker extends Emitter {
    #session;
    #o;
    #vad;
    #unlisten;
    #turn = null;
    /** Turns follow each other: one begins when all of the last one is with the session. */
    #before = Promise.resolve();
    constructor(session, frames, options) {
        super();
        this.#session = session;
        this.#o = { vad: {}, prerollMs: 300, patienceMs: 8_000, maxTurnMs: 60_000, ...options };
        this.#vad = new Vad({ ...this.#o.vad, frameMs: FRAME_MS });
        this.#unlisten = frames.on("frame", (frame) => this.#take(frame));
    }
    get talking() {
        return this.#turn?.direction ?? null;
    }
    /** A turn in this direction begins; another one ends. */
    start(direction, endsBy) {
        this.stop();
        this.#vad.reset();
        const turn = { direction, endsBy, encoder: null, waiting: [], ms: 0, spoke: false, isOver: false };
        this.#turn = turn;
        this.emit("began", { direction });
        this.#before = this.#before.then(() => this.#prepare(turn));
    }
    /** It turns out that the button is not held: the turn ends by silence. */
    letGo() {
        if (this.#turn)
            this.#turn.endsBy = "silence";
    }
    /** The turn is over. */
    stop() {
        const turn = this.#turn;
        if (turn)
            this.#end(turn, turn.ms < SLIP_MS ? "nothing" : "release");
    }
    /** Hears no more frames. */
    close() {
        this.stop();
        this.#unlisten();
    }
    #prepare(turn) {
        try {
            this.#session.setDirection(turn.direction);
            turn.encoder = encoder(this.#o.codec, (piece) => void this.#session.say(piece), (error) => this.#fail(turn, error));
            this.#drain(turn);
        }
        catch (error) {
            this.#fail(turn, error);
        }
    }
    #take(frame) {
        const turn = this.#turn;
        // Between turns the noise of the room is learned.
        const heard = this.#vad.push(frame);
        if (!turn)
            return;
        turn.ms += FRAME_MS;
        if (heard.started && !turn.spoke) {
            turn.spoke = true;
            this.emit("speech", { direction: turn.direction });
        }
        turn.waiting.push(frame);
        this.emit("level", heard);
        if (turn.isOver)
            return;
        this.#drain(turn);
        if (turn.ms >= this.#o.maxTurnMs)
            this.#end(turn, "length");
        else if (turn.endsBy === "silence" && heard.ended)
            this.#end(turn, "silence");
        else if (turn.endsBy === "silence" && !turn.spoke && turn.ms >= this.#o.patienceMs)
            this.#end(turn, "nothing");
    }
    #drain(turn) {
        if (turn.endsBy === "silence" && !turn.spoke) {
            const keep = Math.ceil(this.#o.prerollMs / FRAME_MS);
            if (turn.waiting.length > keep)
                turn.waiting.splice(0, turn.waiting.length - keep);
        }
        else if (turn.encoder && (turn.ms >= SLIP_MS || turn.isOver)) {
            for (const frame of turn.waiting.splice(0))
                turn.encoder.push(frame);
        }
    }
    #end(turn, by) {
        if (turn.isOver)
            return;
        turn.isOver = true;
        this.#turn = null;
        const isNothing = by === "nothing" || (turn.endsBy === "silence" && !turn.spoke);
        this.#before = this.#before.then(() => this.#finish(turn, isNothing ? "nothing" : by));
    }
    async #finish(turn, by) {
        const { direction } = turn;
        if (by !== "nothing") {
            try {
                this.#drain(turn);
                await turn.encoder?.flush();
            }
            catch (error) {
                this.emit("failed", error);
            }
        }
        turn.encoder?.close();
        this.emit("ended", { direction, turn: this.#session.end(), by });
    }
    #fail(turn, error) {
        this.emit("failed", error);
        this.#end(turn, "failure");
    }
}
