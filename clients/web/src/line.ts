// One connection: the handshake, signs of life, and how it ends. It knows nothing of what came before it.

import { parse, retryAfter } from "./wire.js";
import type { ErrorMessage, FromScheduler, SessionInit, SessionInitAck } from "./wire.js";

/** The part of a WebSocket that is used. */
export interface SocketLike {
  binaryType: string;
  readonly bufferedAmount: number;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: { data: unknown }) => void) | null;
  onclose: ((event: { code: number; reason: string }) => void) | null;
  onerror: ((event: never) => void) | null;
  send(data: string | Uint8Array<ArrayBuffer>): void;
  close(code?: number, reason?: string): void;
}

/** The time, for tests to own. */
export interface Clock {
  now(): number;
  after(ms: number, then: () => void): () => void;
}

export const CLOCK: Clock = {
  now: () => Date.now(),
  after(ms, then) {
    const timer = setTimeout(then, ms);
    return () => clearTimeout(timer);
  },
};

/** How a connection ended. */
export interface LineEnd {
  code: number;
  reason: string;
  /** What the scheduler said before, if it refused something. */
  refusal: ErrorMessage | null;
  /** How long it asked to stay away. */
  retryAfterMs: number;
  /** For how long there was a session on it; `null` if there never was. */
  openForMs: number | null;
}

export interface LineOwner {
  opened(ack: SessionInitAck): void;
  heard(message: FromScheduler): void;
  ended(end: LineEnd): void;
}

/** A refusal that came so long before the end is not the reason of it. */
const REASON_MS = 2_000;
const HANDSHAKE_MS = 10_000;
const HEARTBEAT_MS = 20_000;

/** Without a word for so many heartbeats, each of which is answered, the connection is dead. */
const SILENT_HEARTBEATS = 2.5;

export class Line {
  readonly #socket: SocketLike;
  readonly #owner: LineOwner;
  readonly #clock: Clock;
  #ack: SessionInitAck | null = null;
  #openedAt = 0;
  #heardAt: number;
  #refusal: ErrorMessage | null = null;
  #refusedAt = 0;
  #over = false;
  #stopTimer: () => void;

  constructor(socket: SocketLike, init: () => Promise<SessionInit>, owner: LineOwner, clock: Clock) {
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
    socket.onerror = () => {};
  }

  /** Bytes that were given to the socket and have not left yet. */
  get buffered(): number {
    return this.#socket.bufferedAmount;
  }

  get binary(): boolean {
    return this.#ack?.use_binary_frame === true;
  }

  send(message: object | string | Uint8Array<ArrayBuffer>): void {
    if (this.#over) return;
    const isReady = typeof message === "string" || message instanceof Uint8Array;
    this.#socket.send(isReady ? message : JSON.stringify(message));
  }

  /** Ends it from this side, at once: a dead peer would never answer. */
  leave(code: number, reason: string): void {
    if (this.#over) return;
    try {
      this.#socket.close(1000);
    } catch {
      /* It never opened. */
    }
    this.#end(code, reason);
  }

  async #begin(init: () => Promise<SessionInit>): Promise<void> {
    try {
      this.send({ type: "session_init", ...(await init()) });
    } catch (error) {
      this.leave(4000, `no session_init: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  #hear(data: unknown): void {
    if (this.#over) return;
    this.#heardAt = this.#clock.now();
    const message = typeof data === "string" ? parse(data) : null;
    if (!message) return;
    if (message.type === "error") {
      this.#refusal = message;
      this.#refusedAt = this.#heardAt;
    }
    if (this.#ack) return this.#owner.heard(message);
    if (message.type === "session_init_ack") {
      this.#ack = message;
      this.#openedAt = this.#clock.now();
      this.#stopTimer();
      this.#stopTimer = this.#clock.after(this.#heartbeatMs, () => this.#beat());
      this.#owner.opened(message);
    } else if (message.type === "error") {
      this.leave(1008, message.message);
    }
  }

  get #heartbeatMs(): number {
    return Math.max(1000, this.#ack?.heartbeat_interval_ms ?? HEARTBEAT_MS);
  }

  #beat(): void {
    if (this.#over) return;
    const now = this.#clock.now();
    if (now - this.#heardAt > this.#heartbeatMs * SILENT_HEARTBEATS) return this.leave(4000, "nothing was heard for too long");
    this.send({ type: "client_heartbeat", timestamp: now });
    this.#stopTimer = this.#clock.after(this.#heartbeatMs, () => this.#beat());
  }

  #end(code: number, reason: string): void {
    if (this.#over) return;
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
