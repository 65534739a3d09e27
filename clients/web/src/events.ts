// What a session tells its owner.

import type { Direction, Form } from "./wire.js";

/**
 * `connecting` for the first time, `open`, `reconnecting` after a loss, `locked` until a token is shown, `closing` while
 * the last endings come, and `closed` for good.
 */
export type State = "idle" | "connecting" | "open" | "reconnecting" | "locked" | "closing" | "closed";

export interface StateChange {
  state: State;
  /** Attempts since the last success. */
  attempt: number;
  /** When the next attempt is made, if one is. */
  retryInMs: number | null;
  /** Why, in the scheduler's words or those of the browser. */
  why: string;
  /** The scheduler's code, if it refused something. */
  code: string | null;
}

export interface Opened {
  sessionId: string;
  traceId: string;
  /** Not the first connection. */
  again: boolean;
  /** The session from before goes on. */
  resumed: boolean;
  /** And nothing of it is lost. */
  recovered: boolean;
  /** Pieces of speech that go again. */
  resent: number;
}

/** What all that is said of an utterance has. */
export interface OfUtterance {
  /** The number within the session. */
  index: number;
  /** The turn it is a part of, as this object counts them; `null` if that is not known any more. */
  turn: number | null;
  direction: Direction;
}

export interface Words extends OfUtterance {
  text: string;
  final: boolean;
}

export interface Result extends OfUtterance {
  /** What was heard, and what it means. */
  heard: string;
  text: string;
  /** The translation spoken; empty if there is none. */
  audio: Uint8Array<ArrayBuffer>;
  audioFormat: string;
  audioRate: number;
  /** What it is, if the session has `accept`. */
  form: Form | null;
  /** The language between, if no node translates straight. */
  via: string | null;
  /** Since the turn ended; `null` for a part that ended before. */
  latencyMs: number | null;
  /** Which part of a long turn it is. */
  part: number;
  groupId: string;
  jobId: string;
  traceId: string;
  timings: Record<string, unknown>;
  /** What else the node sent, as it did. */
  extra: Record<string, unknown>;
}

export interface Missing extends OfUtterance {
  /** As in docs/PROTOCOL.md: `no_capable_node`, `all_nodes_busy`, `silence_detected` and so on. */
  reason: string;
  /** The code and sentence behind it, if they were told. */
  code: string | null;
  hint: string | null;
  latencyMs: number | null;
}

export interface Step {
  index: number;
  event: string;
  ok: boolean;
  elapsedMs: number | null;
  code: string | null;
  hint: string | null;
}

export interface Problem {
  code: string;
  message: string;
  retryAfterMs: number | null;
  details: Record<string, unknown> | null;
  /** The session is over because of it. */
  fatal: boolean;
}

export interface Backpressure {
  /** Who cannot take more: the scheduler, or the connection to it. */
  source: "scheduler" | "socket";
  /** `RESUME` when it is over. */
  action: "BUSY" | "PAUSE" | "SLOW_DOWN" | "RESUME" | string;
  resumeAfterMs: number | null;
}

/** Speech that will have no translation; never said without this. */
export interface Dropped {
  bytes: number;
  turn: number | null;
  /** `memory`: too much is kept already. `stale`: nobody waits for it any more. `scheduler`: refused there. `closed`: too late. */
  reason: "memory" | "stale" | "scheduler" | "closed";
}

export interface SessionEvents {
  state: StateChange;
  opened: Opened;
  partial: Words;
  result: Result;
  missing: Missing;
  step: Step;
  problem: Problem;
  backpressure: Backpressure;
  dropped: Dropped;
  /** The token shown was taken, and is good until then. */
  token: { expiresMs: number | null };
}
