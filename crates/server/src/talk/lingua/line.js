// One connection: the handshake, signs of life, and how it ends. It knows nothing of what came before it.
import { parse, retryAfter } from "./wire.js";
export const CLOCK = {
    now: () => Date.now(),
    after(ms, then) {
        const timer = setTimeout(then, ms);
        return () => clearTimeout(timer);
    },
};
/** A refusal that came so long before the end is not the reason of it. */
const REASON_MS = 2_000;
const HANDSHAKE_MS = 10_000;
const HEARTBEAT_MS = 20_000;
/** Without a word for so many heartbeats, each of which is answered, the connection is dead. */
const SILENT_HEARTBEATS = 2.5;
export class Line {
    #socket;
    #owner;
    #clock;
    #ack = null;
    #openedAt = 0;
    #heardAt;
    #refusal = null;
    #refusedAt = 0;
    #over = false;
    #stopTimer;
    constructor(socket, init, owner, clock) {
        this.#socket = socket;
        this.#owner = owner;
        this.#clock = clock;
        this.#heardAt = clock.now();
        this.#stopTimer = clock.after(HANDSHAKE_MS, () => this.leave(4002, "no answer in time"));
        socket.binaryType = "arraybuffer";
        socket.onopen = () => void this.#begin(init);
        socket.onmessage = ({ data }) => this.#hear(data);
        socket.onclose = ({ code, reason }) => this.#end(code, reason);
        // A close follows, and says more.
        socket.onerror = () => { };
    }
    /** Bytes that were given to the socket and have not left yet. */
    get buffered() {
        return this.#socket.bufferedAmount;
    }
    get binary() {
        return this.#ack?.use_binary_frame === true;
    }
    send(message) {
        if (this.#over)
            return;
        const isReady = typeof message === "string" || message instanceof Uint8Array;
        this.#socket.send(isReady ? message : JSON.stringify(message));
    }
    /** Ends it from this side, at once: a dead peer would never answer. */
    leave(code, reason) {
        if (this.#over)
            return;
        try {
            this.#socket.close(1000);
        }
        catch {
            /* It never opened. */
        }
        this.#end(code, reason);
    }
    async #begin(init) {
        try {
            this.send({ type: "session_init", ...(await init()) });
        }
        catch (error) {
            this.leave(4000, `no session_init: ${error instanceof Error ? error.message : String(error)}`);
        }
    }
    #hear(data) {
        if (this.#over)
            return;
        this.#heardAt = this.#clock.now();
        const message = typeof data === "string" ? parse(data) : null;
        if (!message)
            return;
        if (message.type === "error") {
            this.#refusal = message;
            this.#refusedAt = this.#heardAt;
        }
        if (this.#ack)
            return this.#owner.heard(message);
        if (message.type === "session_init_ack") {
            this.#ack = message;
            this.#openedAt = this.#clock.now();
            this.#stopTimer();
            this.#stopTimer = this.#clock.after(this.#heartbeatMs, () => this.#beat());
            this.#owner.opened(message);
        }
        else if (message.type === "error") {
            this.leave(1008, message.message);
        }
    }
    get #heartbeatMs() {
        return Math.max(1000, this.#ack?.heartbeat_interval_ms ?? HEARTBEAT_MS);
    }
    #beat() {
        if (this.#over)
            return;
        const now = this.#clock.now();
        if (now - this.#heardAt > this.#heartbeatMs * SILENT_HEARTBEATS)
            return this.leave(4000, "nothing was heard for too long");
        this.send({ type: "client_heartbeat", timestamp: now });
        this.#stopTimer = this.#clock.after(this.#heartbeatMs, () => this.#beat());
    }
    #end(code, reason) {
        if (this.#over)
            return;
        this.#over = true;
        this.#stopTimer();
        const socket = this.#socket;
        socket.onopen = socket.onmessage = socket.onclose = null;
        const refusal = this.#clock.now() - this.#refusedAt <= REASON_MS ? this.#refusal : null;
        const retryAfterMs = Math.max(retryAfter(reason), refusal?.retry_after_ms ?? 0);
        const openForMs = this.#ack ? this.#clock.now() - this.#openedAt : null;
        this.#owner.ended({ code, reason, refusal, retryAfterMs, openForMs });
    }
}
