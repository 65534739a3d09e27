// What goes out on the present connection, and when: never more than it takes, and in the direction it is said in.

import type { SessionEvents } from "./events.js";
import type { Hearing } from "./hearing.js";
import type { Clock, Line } from "./line.js";
import type { Outbox } from "./outbox.js";
import { audioChunk, audioFrame, same } from "./wire.js";
import type { Direction } from "./wire.js";

const LOOK_AGAIN_MS = 50;
/** A scheduler that asks to hold on and does not say for how long. */
const HELD_MS = 1_000;

export class Sender {
  readonly #outbox: Outbox;
  readonly #hearing: Hearing;
  readonly #clock: Clock;
  readonly #maxBytes: number;
  readonly #tell: (event: SessionEvents["backpressure"]) => void;
  readonly #idle: (line: Line) => void;
  #line: Line | null = null;
  /** What the scheduler takes the next piece for. */
  #direction: Direction = { src: "", tgt: "" };
  /** Nothing is sent before this. */
  #heldUntil = 0;
  #crowded = false;
  #stopLook: () => void = () => {};

  /** Calls `idle` whenever all that may be sent is. */
  constructor(
    outbox: Outbox, hearing: Hearing, clock: Clock, maxBytes: number,
    tell: (event: SessionEvents["backpressure"]) => void, idle: (line: Line) => void,
  ) {
    this.#outbox = outbox;
    this.#hearing = hearing;
    this.#clock = clock;
    this.#maxBytes = maxBytes;
    this.#tell = tell;
    this.#idle = idle;
  }

  /** A connection that was opened in this direction. */
  attach(line: Line, direction: Direction): void {
    this.detach();
    this.#line = line;
    this.#direction = direction;
    this.#heldUntil = 0;
    this.#crowded = false;
  }

  detach(): void {
    this.#stopLook();
    this.#line = null;
  }

  /** The scheduler asks to hold on. */
  hold(action: string, resumeAfterMs: number | undefined): void {
    this.#tell({ source: "scheduler", action, resumeAfterMs: resumeAfterMs ?? null });
    this.#heldUntil = this.#clock.now() + (resumeAfterMs ?? HELD_MS);
  }

  /** Sends what may be sent. */
  pump(): void {
    for (let line = this.#line; line; line = this.#line) {
      const wait = this.#heldUntil - this.#clock.now();
      if (wait > 0) return this.#look(wait);
      if (this.#isCrowded(line.buffered)) return this.#look(LOOK_AGAIN_MS);
      const piece = this.#outbox.next();
      if (!piece) return this.#idle(line);
      const { seq, audio, final, turn } = piece;
      if (!same(turn.direction, this.#direction)) {
        const { src, tgt, targets } = (this.#direction = turn.direction);
        line.send({ type: "set_languages", src_lang: src, tgt_lang: tgt, ...(targets && { targets }) });
      }
      turn.firstIndex ??= this.#hearing.nextIndex;
      line.send(line.binary ? audioFrame(seq, audio, final, this.#clock.now() - turn.beganAt) : audioChunk(seq, audio, final));
    }
  }

  #look(ms: number): void {
    this.#stopLook();
    this.#stopLook = this.#clock.after(ms, () => this.pump());
  }

  #isCrowded(buffered: number): boolean {
    const now = buffered > (this.#crowded ? this.#maxBytes / 2 : this.#maxBytes);
    if (now !== this.#crowded) {
      this.#crowded = now;
      this.#tell({ source: "socket", action: now ? "PAUSE" : "RESUME", resumeAfterMs: null });
    }
    return now;
  }
}
