// Speech that is on its way: kept until its ending is heard, so that it can be said again wherever the session goes on.

import { same } from "./wire.js";
import type { Direction } from "./wire.js";

/** What somebody says from its beginning to its end. */
export interface Turn {
  /** Counted from 0 over the life of the session object, whatever becomes of connections. */
  number: number;
  direction: Direction;
  beganAt: number;
  endedAt: number | null;
  /** No utterance of this turn has a lower number; `null` before any of it was sent. */
  firstIndex: number | null;
}

export interface Piece {
  seq: number;
  audio: Uint8Array;
  final: boolean;
  turn: Turn;
}

/**
 * The pieces in their order. A piece is sent, then acknowledged (it is safe with the scheduler), then ended (its
 * translation was heard); only then is it forgotten.
 *
 * A piece of another direction is held back until everything before it is acknowledged. So all that may have to be sent
 * again after a loss has one direction, which is the one the connection opens with, and no sentence is ever cut in two
 * or taken for the other language by a connection that broke in between.
 */
export class Outbox {
  readonly #maxBytes: number;
  #pieces: Piece[] = [];
  /** How many of them were sent on this connection. */
  #sent = 0;
  #acked = -1;
  #nextSeq = 0;
  #bytes = 0;
  /** What was given up for want of room although its ending was not heard: the last such piece of each turn. */
  #givenUp = new Map<Turn, number>();

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Bytes of speech that are kept. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Pieces that are not acknowledged. */
  get pending(): number {
    return this.#pieces.length - this.#firstPending();
  }

  /** Turns that have pieces here, in their order. */
  get turns(): Turn[] {
    return [...new Set(this.#pieces.map((piece) => piece.turn))];
  }

  /** Takes a piece, or says that there is no room. The end of a turn needs none. */
  push(audio: Uint8Array, final: boolean, turn: Turn): boolean {
    if (audio.length > 0 && !this.#makeRoom(audio.length)) return false;
    this.#pieces.push({ seq: this.#nextSeq, audio, final, turn });
    this.#nextSeq += 1;
    this.#bytes += audio.length;
    return true;
  }

  /** The next piece that may be sent now; it counts as sent. */
  next(): Piece | null {
    const piece = this.#pieces[this.#sent];
    if (!piece) return null;
    const first = this.#pieces[this.#firstPending()];
    if (first && !same(first.turn.direction, piece.turn.direction)) return null;
    this.#sent += 1;
    return piece;
  }

  /** What a connection has to open with; `null` if nothing is on its way. */
  direction(): Direction | null {
    return this.#pieces[this.#firstPending()]?.turn.direction ?? null;
  }

  /** The turn that the piece with this number belongs to. */
  turnOf(seq: number): Turn | null {
    return this.#pieces.find((piece) => piece.seq === seq)?.turn ?? null;
  }

  /** Everything up to this piece is safe. */
  ack(seq: number): void {
    this.#acked = Math.max(this.#acked, Math.min(seq, this.#nextSeq - 1));
    this.#sent = Math.max(this.#sent, this.#firstPending());
  }

  /** The utterance that ends with this piece has its ending. */
  ended(seq: number): void {
    this.ack(seq);
    const count = this.#pieces.findIndex((piece) => piece.seq > seq);
    this.#forget(count < 0 ? this.#pieces.length : count);
    for (const [turn, last] of this.#givenUp) if (last <= seq) this.#givenUp.delete(turn);
  }

  /** A new connection of the same session: what is not acknowledged goes again. Gives how many pieces that are. */
  resume(): number {
    this.#sent = this.#firstPending();
    return this.#pieces.length - this.#sent;
  }

  /**
   * Another session, which knows nothing: all that has no ending is said once more, under new numbers. Turns that ended
   * before `oldest` are left out, since nobody waits for them. Gives those, and those that are not whole any more.
   */
  restart(oldest: number): { stale: Turn[]; givenUp: Turn[] } {
    const stale = this.turns.filter((turn) => turn.endedAt !== null && turn.endedAt < oldest);
    this.#pieces = this.#pieces.filter((piece) => !stale.includes(piece.turn));
    this.#pieces.forEach((piece, seq) => {
      piece.seq = seq;
      piece.turn.firstIndex = null;
    });
    this.#bytes = this.#pieces.reduce((sum, piece) => sum + piece.audio.length, 0);
    this.#nextSeq = this.#pieces.length;
    this.#acked = -1;
    this.#sent = 0;
    const givenUp = [...this.#givenUp.keys()];
    this.#givenUp.clear();
    return { stale, givenUp };
  }

  #firstPending(): number {
    const at = this.#pieces.findIndex((piece) => piece.seq > this.#acked);
    return at < 0 ? this.#pieces.length : at;
  }

  /** What is safe with the scheduler is given up first: it is needed only if the scheduler loses all it knows. */
  #makeRoom(bytes: number): boolean {
    const needed = this.#bytes + bytes - this.#maxBytes;
    if (needed <= 0) return true;
    const safe = this.#pieces.slice(0, this.#firstPending());
    let freed = 0;
    const count = safe.findIndex((piece) => (freed += piece.audio.length) >= needed) + 1;
    if (count === 0) return false;
    for (const piece of safe.slice(0, count)) this.#givenUp.set(piece.turn, piece.seq);
    this.#forget(count);
    return true;
  }

  #forget(count: number): void {
    for (const piece of this.#pieces.splice(0, count)) this.#bytes -= piece.audio.length;
    this.#sent = Math.max(0, this.#sent - count);
  }
}
