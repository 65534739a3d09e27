// The words of the session socket, as docs/PROTOCOL.md of the scheduler has them.

/** From which language into which. */
export interface Direction {
  src: string;
  tgt: string;
  /** Several languages at once, `tgt` one of them: each utterance has an ending for each. */
  targets?: string[];
}

/** Whether both mean the same languages. */
export function same(a: Direction, b: Direction): boolean {
  return a.src === b.src && a.tgt === b.tgt && String(a.targets) === String(b.targets);
}

/** What an answer is: the translation spoken, the translation in writing, or what was said in writing. */
export type Form = "speech" | "captions" | "original";

/** By which figures jobs are decided: nothing is given up early, or late is as bad as never. */
export type Profile = "stable" | "fast";

export type Codec = "opus" | "pcm16";

/** The first message. */
export interface SessionInit {
  client_version: string;
  platform: string;
  src_lang: string;
  tgt_lang: string;
  targets?: string[];
  codec: Codec;
  supports: string[];
  enable_streaming_asr?: boolean;
  partial_update_interval_ms?: number;
  pause_ms?: number;
  max_utterance_ms?: number;
  accept?: Form[];
  profile?: Profile;
  tenant_id?: string;
  token?: string;
  trace_id?: string;
  resume_token?: string;
  last_index?: number;
  last_indexes?: Record<string, number>;
}

export interface SessionInitAck {
  type: "session_init_ack";
  session_id: string;
  trace_id?: string;
  use_binary_frame?: boolean;
  negotiated_codec?: string;
  resume_token?: string;
  recovered?: boolean;
  next_index?: number;
  heartbeat_interval_ms?: number;
  /** The targets, if they are several. */
  targets?: string[];
}

/** In which language a message about an utterance is. */
export interface Spoken {
  src_lang?: string;
  tgt_lang?: string;
}

export interface TranslationResult extends Spoken {
  type: "translation_result";
  utterance_index: number;
  job_id?: string;
  trace_id?: string;
  group_id?: string;
  part_index?: number;
  text_asr?: string;
  text_translated?: string;
  tts_audio?: string;
  tts_format?: string;
  form?: Form;
  via?: string;
  extra?: Record<string, unknown>;
  service_timings?: Record<string, unknown>;
  audio_ack?: number;
}

export interface MissingResult extends Spoken {
  type: "missing_result";
  utterance_index: number;
  reason: string;
  trace_id?: string;
  audio_ack?: number;
}

export interface AsrPartial extends Spoken {
  type: "asr_partial";
  utterance_index: number;
  text: string;
  is_final?: boolean;
}

export interface UiEvent extends Spoken {
  type: "ui_event";
  utterance_index: number;
  event: string;
  status?: string;
  error_code?: string;
  hint?: string;
  elapsed_ms?: number;
}

export interface ErrorMessage {
  type: "error";
  code: string;
  message: string;
  retry_after_ms?: number;
  details?: Record<string, unknown>;
}

/** What a scheduler says. Types that are not known here are passed over, as newer ones may be. */
export type FromScheduler =
  | SessionInitAck
  | TranslationResult
  | MissingResult
  | AsrPartial
  | UiEvent
  | ErrorMessage
  | { type: "finalized"; utterance_index?: number }
  | { type: "audio_ack"; seq: number }
  | { type: "backpressure"; action: string; resume_after_ms?: number; message?: string }
  | { type: "go_away"; deadline_ms?: number; reason?: string }
  | { type: "auth_ack"; expires_ms?: number }
  | { type: "server_heartbeat"; timestamp?: number }
  | { type: "session_close_ack" };

/** Fields without which a message of that type says nothing. */
const NEEDED: Record<FromScheduler["type"], Record<string, "string" | "number">> = {
  session_init_ack: { session_id: "string" },
  translation_result: { utterance_index: "number" },
  missing_result: { utterance_index: "number", reason: "string" },
  asr_partial: { utterance_index: "number", text: "string" },
  ui_event: { utterance_index: "number", event: "string" },
  error: { code: "string", message: "string" },
  finalized: {},
  audio_ack: { seq: "number" },
  backpressure: { action: "string" },
  go_away: {},
  auth_ack: {},
  server_heartbeat: {},
  session_close_ack: {},
};

/** A message, or `null` if it is none that is understood here. `null` for a field is the same as its absence. */
export function parse(text: string): FromScheduler | null {
  let message: Record<string, unknown>;
  try {
    message = JSON.parse(text, (_, value: unknown) => (value === null ? undefined : value)) as Record<string, unknown>;
  } catch {
    return null;
  }
  if (typeof message !== "object" || message === null || typeof message.type !== "string") return null;
  if (!Object.hasOwn(NEEDED, message.type)) return null;
  const needed = NEEDED[message.type as FromScheduler["type"]];
  const whole = Object.entries(needed).every(([name, type]) => typeof message[name] === type);
  return whole ? (message as unknown as FromScheduler) : null;
}

/** A piece of speech as a binary message; the session's id may be left out, and is. */
export function audioFrame(seq: number, audio: Uint8Array, final: boolean, timestampMs = 0): Uint8Array<ArrayBuffer> {
  const isEnd = final && audio.length === 0;
  const head = isEnd ? 10 : 12;
  const frame = new Uint8Array(head + audio.length);
  const view = new DataView(frame.buffer);
  view.setUint8(0, isEnd ? 0x02 : 0x01);
  view.setUint8(1, 0);
  view.setUint32(2, seq, true);
  view.setUint32(6, timestampMs >>> 0, true);
  if (!isEnd) view.setUint8(10, final ? 1 : 0);
  frame.set(audio, head);
  return frame;
}

/** The same as JSON, for schedulers that did not agree to binary frames. */
export function audioChunk(seq: number, audio: Uint8Array, final: boolean): string {
  const payload = audio.length > 0 ? { payload: toBase64(audio) } : {};
  return JSON.stringify({ type: "audio_chunk", seq, is_final: final, ...payload });
}

export function toBase64(bytes: Uint8Array): string {
  let text = "";
  // In parts: a call takes only so many arguments.
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}

/** The bytes, or `null` if it is no base64. */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> | null {
  try {
    const raw = atob(text);
    const bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i += 1) bytes[i] = raw.charCodeAt(i);
    return bytes;
  } catch {
    return null;
  }
}

/** What a WebSocket takes of a close reason with `retry_after_ms`, as a scheduler that stops gives it. */
export function retryAfter(reason: string): number {
  const found = /retry_after_ms\D{0,4}(\d{1,9})/.exec(reason);
  return found ? Number(found[1]) : 0;
}
