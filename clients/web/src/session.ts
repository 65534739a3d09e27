// A conversation with the scheduler that outlives its connections: what is said is kept until its translation is heard,
// and every translation is told once, in order.

import { Backoff } from "./backoff.js";
import { Emitter } from "./emitter.js";
import type { SessionEvents, State } from "./events.js";
import { Hearing } from "./hearing.js";
import { CLOCK, Line } from "./line.js";
import type { Clock, LineEnd, SocketLike } from "./line.js";
import { firstMessage, sessionUrl } from "./opening.js";
import type { SessionOptions } from "./opening.js";
import { Outbox } from "./outbox.js";
import type { Turn } from "./outbox.js";
import { Sender } from "./sender.js";
import type { Direction, FromScheduler, SessionInit, SessionInitAck } from "./wire.js";

/** The same words said again get the same answer. */
const FATAL = new Set(["FORBIDDEN", "INVALID_MESSAGE", "INVALID_LANGUAGE", "UNSUPPORTED_MESSAGE", "MESSAGE_TOO_LARGE"]);
const CLOSE_MS = 5_000;
/** A connection that lived for so long was a good one, and the next attempt is a first one. */
const GOOD_MS = 3_000;
/** So long after an attempt that was given up the scheduler may still come upon it. */
const GHOST_MS = 30_000;
/** Everybody whom an instance sends away goes at once, but not in the same moment. */
const GO_AWAY_MS = 300;

export class Session extends Emitter<SessionEvents> {
  readonly #o: SessionOptions;
  readonly #urls: string[];
  readonly #clock: Clock;
  readonly #connect: (url: string) => SocketLike;
  readonly #backoff: Backoff;
  readonly #outbox: Outbox;
  readonly #hearing: Hearing;
  readonly #sender: Sender;
  #state: State = "idle";
  #line: Line | null = null;
  /** One that is being left: what it still tells counts until the next one is there. */
  #former: Line | null = null;
  #direction: Direction;
  /** In which the connection was opened. */
  #lineDirection: Direction;
  #token: SessionOptions["token"];
  #resumeToken: string | null = null;
  #sessionId: string | null = null;
  #urlAt = 0;
  #turn: Turn | null = null;
  #turns = 0;
  #saidGoodbye = false;
  /** When an attempt ended without an answer. */
  #ghostAt = -Infinity;
  #stopWait: () => void = () => {};

  constructor(options: SessionOptions) {
    super();
    this.#o = options;
    this.#urls = [options.url].flat().map(sessionUrl);
    if (this.#urls.length === 0) throw new TypeError("url: is needed");
    this.#clock = options.clock ?? CLOCK;
    this.#connect = options.connect ?? ((url) => new WebSocket(url) as unknown as SocketLike);
    this.#backoff = new Backoff(options.backoff);
    this.#outbox = new Outbox(options.keepBytes ?? 4 << 20);
    this.#direction = this.#lineDirection = { ...options.direction };
    this.#token = options.token;
    this.#hearing = new Hearing(this.#outbox, this.#clock, () => this.#direction, (name, event) => this.emit(name, event));
    const [tell, idle] = [(event: SessionEvents["backpressure"]) => this.emit("backpressure", event), (line: Line) => this.#sayGoodbye(line)];
    this.#sender = new Sender(this.#outbox, this.#hearing, this.#clock, options.socketBytes ?? 256 << 10, tell, idle);
  }

  get state(): State {
    return this.#state;
  }

  get sessionId(): string | null {
    return this.#sessionId;
  }

  /** In which direction the next turn goes. */
  get direction(): Direction {
    return this.#direction;
  }

  /** Pieces that the scheduler has not confirmed, and bytes that are kept. */
  get unconfirmed(): { pieces: number; bytes: number } {
    return { pieces: this.#outbox.pending, bytes: this.#outbox.bytes };
  }

  /** Connects, and keeps connected. */
  open(): void {
    if (this.#state === "idle") this.#dial();
  }

  /** Says a piece of speech: whole Opus packets behind their lengths, or whole samples. False: it was dropped, as an event said. */
  say(audio: Uint8Array): boolean {
    if (this.#isOver()) return this.#drop(audio.length, null, "closed");
    this.#turn ??= {
      number: this.#turns++, direction: this.#direction, beganAt: this.#clock.now(), endedAt: null, firstIndex: null,
    };
    if (!this.#outbox.push(audio, false, this.#turn)) return this.#drop(audio.length, this.#turn.number, "memory");
    this.#sender.pump();
    return true;
  }

  /** The turn is over. Gives its number; `null` if nothing was said. */
  end(): number | null {
    const turn = this.#turn;
    if (!turn) return null;
    this.#turn = null;
    turn.endedAt = this.#clock.now();
    this.#outbox.push(new Uint8Array(0), true, turn);
    this.#sender.pump();
    return turn.number;
  }

  /**
   * Has a text translated in place of speech. False: there is no open connection, or no text, and nothing was sent. It is not
   * kept for another connection as speech is.
   */
  type(text: string, direction: Direction = this.#direction): boolean {
    if (this.#state !== "open" || !this.#line || text.trim() === "") return false;
    this.#hearing.typed({ src: direction.src, tgt: direction.tgt });
    this.#line.send({ type: "text_utterance", src_lang: direction.src, tgt_lang: direction.tgt, text });
    return true;
  }

  /** From now on in this direction; a turn that has begun ends. */
  setDirection(direction: Direction): void {
    this.end();
    this.#direction = { ...direction };
  }

  /** An utterance is no longer wanted. */
  cancel(index: number): void {
    if (this.#state === "open") this.#line?.send({ type: "cancel", utterance_index: index });
  }

  /** The loudspeaker plays: its pauses end no turn. */
  ttsStarted(of?: { traceId: string; groupId: string }): void {
    this.#tellTts("tts_started", "ts_start_ms", of);
  }

  ttsEnded(of?: { traceId: string; groupId: string }): void {
    this.#tellTts("tts_play_ended", "ts_end_ms", of);
  }

  /** Shows a newer token: on the open connection, or to go on where one was asked for. */
  authorize(token: string): void {
    this.#token = token;
    if (this.#state === "open") this.#line?.send({ type: "auth", token });
    else if (this.#state === "locked") this.#dial();
  }

  /** Tries at once instead of later: the network is back, or somebody asks for it. */
  retry(): void {
    if (this.#state === "reconnecting" && !this.#line) this.#dial();
  }

  /** Ends the conversation; what is open gets its ending first. Resolves when all is over. */
  async close(): Promise<void> {
    if (this.#isOver()) return this.#over();
    this.end();
    const line = this.#line;
    if (this.#state !== "open" || !line) return this.#finish("closed", null);
    this.#setState("closing", "closed by this side");
    this.#stopWait = this.#clock.after(CLOSE_MS, () => line.leave(1000, "no answer to session_close"));
    this.#sender.pump();
    return this.#over();
  }

  async #over(): Promise<void> {
    while (this.#state !== "closed") await this.once("state");
  }

  #dial(): void {
    this.#stopWait();
    this.#setState(this.#sessionId === null ? "connecting" : "reconnecting", "");
    let socket: SocketLike;
    try {
      socket = this.#connect(this.#urls[this.#urlAt % this.#urls.length]!);
    } catch (error) {
      // The page may not connect there at all, now or later.
      return this.#finish(error instanceof Error ? error.message : String(error), null);
    }
    const line: Line = new Line(socket, () => this.#init(), {
      opened: (ack) => this.#opened(ack),
      heard: (message) => (line === this.#line ? this.#heard(message) : this.#heardLate(message)),
      ended: (end) => line === this.#line && this.#lost(end),
    }, this.#clock);
    this.#line = line;
  }

  async #init(): Promise<SessionInit> {
    const token = typeof this.#token === "function" ? await this.#token() : this.#token;
    this.#lineDirection = this.#outbox.direction() ?? this.#direction;
    return firstMessage(this.#o, this.#lineDirection, token, this.#resumeToken, this.#hearing);
  }

  #opened(ack: SessionInitAck): void {
    this.#former?.leave(1000, "another connection is there");
    this.#former = null;
    const again = this.#sessionId !== null;
    const resumed = again && ack.session_id === this.#sessionId;
    this.#sessionId = ack.session_id;
    this.#resumeToken = ack.resume_token ?? null;
    this.#sender.attach(this.#line!, this.#lineDirection);
    let resent;
    if (again && !resumed) {
      this.#hearing.restart();
      const { stale, givenUp } = this.#outbox.restart(this.#clock.now() - (this.#o.keepMs ?? 120_000));
      for (const turn of stale) this.#drop(0, turn.number, "stale");
      for (const turn of givenUp) this.#drop(0, turn.number, "memory");
      resent = this.#outbox.pending;
    } else {
      resent = this.#outbox.resume();
    }
    this.#hearing.opened(ack.next_index);
    this.#setState("open", "");
    const recovered = ack.recovered === true;
    this.emit("opened", { sessionId: ack.session_id, traceId: ack.trace_id ?? "", again, resumed, recovered, resent });
    this.#sender.pump();
  }

  #heard(message: FromScheduler): void {
    switch (message.type) {
      case "audio_ack":
        this.#outbox.ack(message.seq);
        return this.#sender.pump();
      case "backpressure":
        this.#sender.hold(message.action, message.resume_after_ms);
        return this.#sender.pump();
      case "go_away":
        if (this.#state !== "open") return;
        this.#urlAt += 1;
        this.#sender.detach();
        this.#former?.leave(1000, "asked to go");
        this.#former = this.#line;
        this.#line = null;
        return this.#wait(Math.random() * GO_AWAY_MS, message.reason ?? "asked to go elsewhere", null);
      case "auth_ack":
        return this.emit("token", { expiresMs: message.expires_ms ?? null });
      default:
        this.#hearing.heard(message);
        this.#sender.pump();
    }
  }

  /** From an instance that stops: speech that is safe, and endings. Both may be told again by the next one. */
  #heardLate(message: FromScheduler): void {
    if (message.type === "audio_ack") this.#outbox.ack(message.seq);
    else if ("utterance_index" in message) this.#hearing.heard(message);
  }

  #lost(end: LineEnd): void {
    this.#line = null;
    this.#sender.detach();
    const code = end.refusal?.code ?? null;
    const why = end.refusal?.message || end.reason || `the connection ended with ${end.code}`;
    if (this.#state === "closing" || this.#state === "closed") return this.#finish("closed", null);
    if (end.code === 4001 && !this.#isOwnGhost()) return this.#finish("another connection took the session over", "SESSION_SUPERSEDED");
    if (end.openForMs === null && code === null) this.#ghostAt = this.#clock.now();
    if (end.openForMs !== null && end.openForMs >= GOOD_MS) this.#backoff.reset();
    if (code === "UNAUTHORIZED" && typeof this.#token !== "function") return this.#setState("locked", why, code);
    if (code !== null && end.openForMs === null) {
      const { message, details, retry_after_ms: retry } = end.refusal!;
      const fatal = FATAL.has(code);
      this.emit("problem", { code, message, retryAfterMs: retry ?? null, details: details ?? null, fatal });
      if (fatal) return this.#finish(why, code);
      // There is nothing to go on with: a new session it is.
      if (code === "INVALID_SESSION" || code === "SESSION_CLOSED") this.#resumeToken = null;
    }
    this.#urlAt += 1;
    this.#wait(this.#backoff.next(end.retryAfterMs), why, code);
  }

  /** What superseded this connection was an attempt of our own that the scheduler came upon late: that happens once. */
  #isOwnGhost(): boolean {
    const is = this.#clock.now() - this.#ghostAt < GHOST_MS;
    this.#ghostAt = -Infinity;
    return is;
  }

  #wait(ms: number, why: string, code: string | null): void {
    this.#stopWait = this.#clock.after(ms, () => this.#dial());
    this.#setState(this.#sessionId === null ? "connecting" : "reconnecting", why, code, ms);
  }

  /** Once all that was said is safe. */
  #sayGoodbye(line: Line): void {
    if (this.#state !== "closing" || this.#saidGoodbye || this.#outbox.pending > 0) return;
    this.#saidGoodbye = true;
    line.send({ type: "session_close", reason: "user" });
  }

  #tellTts(type: string, stamp: string, of?: { traceId: string; groupId: string }): void {
    if (this.#state !== "open") return;
    this.#line?.send({ type, ...(of && { trace_id: of.traceId, group_id: of.groupId }), [stamp]: this.#clock.now() });
  }

  #drop(bytes: number, turn: number | null, reason: "memory" | "stale" | "closed"): false {
    this.emit("dropped", { bytes, turn, reason });
    return false;
  }

  #isOver(): boolean {
    return this.#state === "closing" || this.#state === "closed";
  }

  #finish(why: string, code: string | null): void {
    this.#stopWait();
    this.#sender.detach();
    const lines = [this.#line, this.#former];
    this.#line = this.#former = null;
    for (const line of lines) line?.leave(1000, why);
    if (this.#state === "closed") return;
    for (const turn of this.#outbox.turns) this.#drop(0, turn.number, "closed");
    this.#setState("closed", why, code);
  }

  #setState(state: State, why: string, code: string | null = null, retryInMs: number | null = null): void {
    this.#state = state;
    this.emit("state", { state, attempt: this.#backoff.attempts, retryInMs, why, code });
  }
}
