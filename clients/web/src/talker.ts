// From the microphone to the session: one turn at a time, which ends when it is let go of or when silence follows speech.

import { Emitter } from "./emitter.js";
import { FRAME_MS } from "./microphone.js";
import { encoder } from "./opus.js";
import type { Encoder } from "./opus.js";
import type { Session } from "./session.js";
import { Vad } from "./vad.js";
import type { Heard, VadOptions } from "./vad.js";
import type { Codec, Direction } from "./wire.js";

/** What ends a turn: whoever speaks lets go of the button, or falls silent. */
export type EndsBy = "release" | "silence";

/** Why it ended. `nothing`: nobody spoke. */
export type EndedBy = EndsBy | "length" | "nothing" | "failure";

export interface TalkerOptions {
  codec: Codec;
  vad?: VadOptions;
  /** Of a turn that waits for speech, so much before it is sent too: the first sound is a soft one. */
  prerollMs?: number;
  /** A turn in which nobody speaks for so long is over. */
  patienceMs?: number;
  /** And no turn is longer than this. */
  maxTurnMs?: number;
}

export interface TalkerEvents {
  began: { direction: Direction };
  /** For every frame while somebody may speak: how loud it is, and whether that is speech. */
  level: Heard;
  /** Speech was heard for the first time in this turn. */
  speech: { direction: Direction };
  /** The number of the turn; `null` if there was nothing to send. */
  ended: { direction: Direction; turn: number | null; by: EndedBy };
  failed: Error;
}

/** Frames of 20 ms at 16 kHz; a microphone, or a file in tests. */
export interface Frames {
  on(name: "frame", listener: (frame: Float32Array) => void): () => void;
}

/** A press shorter than this is a slip of the finger. */
const SLIP_MS = 240;

interface Running {
  direction: Direction;
  endsBy: EndsBy;
  encoder: Encoder | null;
  /** What waits for the encoder, or for speech. */
  waiting: Float32Array[];
  ms: number;
  spoke: boolean;
  isOver: boolean;
}

export class Talker extends Emitter<TalkerEvents> {
  readonly #session: Session;
  readonly #o: Required<TalkerOptions>;
  readonly #vad: Vad;
  readonly #unlisten: () => void;
  #turn: Running | null = null;
  /** Turns follow each other: one begins when all of the last one is with the session. */
  #before: Promise<void> = Promise.resolve();

  constructor(session: Session, frames: Frames, options: TalkerOptions) {
    super();
    this.#session = session;
    this.#o = { vad: {}, prerollMs: 300, patienceMs: 8_000, maxTurnMs: 60_000, ...options };
    this.#vad = new Vad({ ...this.#o.vad, frameMs: FRAME_MS });
    this.#unlisten = frames.on("frame", (frame) => this.#take(frame));
  }

  get talking(): Direction | null {
    return this.#turn?.direction ?? null;
  }

  /** A turn in this direction begins; another one ends. */
  start(direction: Direction, endsBy: EndsBy): void {
    this.stop();
    this.#vad.reset();
    const turn: Running = { direction, endsBy, encoder: null, waiting: [], ms: 0, spoke: false, isOver: false };
    this.#turn = turn;
    this.emit("began", { direction });
    this.#before = this.#before.then(() => this.#prepare(turn));
  }

  /** It turns out that the button is not held: the turn ends by silence. */
  letGo(): void {
    if (this.#turn) this.#turn.endsBy = "silence";
  }

  /** The turn is over. */
  stop(): void {
    const turn = this.#turn;
    if (turn) this.#end(turn, turn.ms < SLIP_MS ? "nothing" : "release");
  }

  /** Hears no more frames. */
  close(): void {
    this.stop();
    this.#unlisten();
  }

  #prepare(turn: Running): void {
    try {
      this.#session.setDirection(turn.direction);
      turn.encoder = encoder(this.#o.codec, (piece) => void this.#session.say(piece), (error) => this.#fail(turn, error));
      this.#drain(turn);
    } catch (error) {
      this.#fail(turn, error as Error);
    }
  }

  #take(frame: Float32Array): void {
    const turn = this.#turn;
    // Between turns the noise of the room is learned.
    const heard = this.#vad.push(frame);
    if (!turn) return;
    turn.ms += FRAME_MS;
    if (heard.started && !turn.spoke) {
      turn.spoke = true;
      this.emit("speech", { direction: turn.direction });
    }
    turn.waiting.push(frame);
    this.emit("level", heard);
    if (turn.isOver) return;
    this.#drain(turn);
    if (turn.ms >= this.#o.maxTurnMs) this.#end(turn, "length");
    else if (turn.endsBy === "silence" && heard.ended) this.#end(turn, "silence");
    else if (turn.endsBy === "silence" && !turn.spoke && turn.ms >= this.#o.patienceMs) this.#end(turn, "nothing");
  }

  #drain(turn: Running): void {
    if (turn.endsBy === "silence" && !turn.spoke) {
      const keep = Math.ceil(this.#o.prerollMs / FRAME_MS);
      if (turn.waiting.length > keep) turn.waiting.splice(0, turn.waiting.length - keep);
    } else if (turn.encoder && (turn.ms >= SLIP_MS || turn.isOver)) {
      for (const frame of turn.waiting.splice(0)) turn.encoder.push(frame);
    }
  }

  #end(turn: Running, by: EndedBy): void {
    if (turn.isOver) return;
    turn.isOver = true;
    this.#turn = null;
    const isNothing = by === "nothing" || (turn.endsBy === "silence" && !turn.spoke);
    this.#before = this.#before.then(() => this.#finish(turn, isNothing ? "nothing" : by));
  }

  async #finish(turn: Running, by: EndedBy): Promise<void> {
    const { direction } = turn;
    if (by !== "nothing") {
      try {
        this.#drain(turn);
        await turn.encoder?.flush();
      } catch (error) {
        this.emit("failed", error as Error);
      }
    }
    turn.encoder?.close();
    this.emit("ended", { direction, turn: this.#session.end(), by });
  }

  #fail(turn: Running, error: Error): void {
    this.emit("failed", error);
    this.#end(turn, "failure");
  }
}
