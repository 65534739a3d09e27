// How a session is opened: what its owner may choose, and the first message.

import type { BackoffOptions } from "./backoff.js";
import type { Clock, SocketLike } from "./line.js";
import type { Codec, Direction, Form, Profile, SessionInit } from "./wire.js";

export interface SessionOptions {
  /** The scheduler, or several instances of it: `https://host`, `wss://host/ws/session`. Tokens do not belong here. */
  url: string | string[];
  direction: Direction;
  codec?: Codec;
  /** Shown in the first message. A function is asked before each connection, so that it can give a newer one. */
  token?: string | (() => string | Promise<string>);
  /** Words on the way. */
  partials?: boolean;
  pauseMs?: number;
  maxUtteranceMs?: number;
  /** What the person takes when the best is not there; absent: speech, else captions. With it results say their `form`. */
  accept?: Form[];
  /** Absent: as the scheduler has it. */
  profile?: Profile;
  tenantId?: string;
  clientVersion?: string;
  platform?: string;
  /** Speech kept in memory for a connection that is lost, in bytes. */
  keepBytes?: number;
  /** In a new session nothing is said again that ended longer ago. */
  keepMs?: number;
  /** With more than this in the socket nothing is added to it. */
  socketBytes?: number;
  backoff?: BackoffOptions;
  /** For tests, and for places without a WebSocket of their own. */
  connect?: (url: string) => SocketLike;
  clock?: Clock;
}

const SUPPORTS = ["binary", "audio_ack", "resume", "events"];

/** The address of the session socket of a scheduler. */
export function sessionUrl(base: string): string {
  const url = new URL(base);
  if (url.username || url.password || url.search) throw new TypeError("a scheduler's URL has no user, password or query: tokens go in the token option");
  url.protocol = url.protocol.replace("http", "ws");
  if (url.protocol !== "ws:" && url.protocol !== "wss:") throw new TypeError(`${base} is no http(s) or ws(s) URL`);
  if (!url.pathname.endsWith("/ws/session")) url.pathname = `${url.pathname.replace(/\/$/, "")}/ws/session`;
  return url.href;
}

export function firstMessage(
  o: SessionOptions, direction: Direction, token: string | undefined, resumeToken: string | null,
  heard: { lastIndex: number | null; lastIndexes: Record<string, number> },
): SessionInit {
  return {
    client_version: o.clientVersion ?? "lingua-web 0.1.0",
    platform: o.platform ?? "web",
    src_lang: direction.src,
    tgt_lang: direction.tgt,
    ...(direction.targets && { targets: direction.targets }),
    codec: o.codec ?? "pcm16",
    supports: SUPPORTS,
    enable_streaming_asr: o.partials ?? true,
    ...(o.pauseMs !== undefined && { pause_ms: o.pauseMs }),
    ...(o.maxUtteranceMs !== undefined && { max_utterance_ms: o.maxUtteranceMs }),
    ...(o.accept !== undefined && { accept: o.accept }),
    ...(o.profile !== undefined && { profile: o.profile }),
    ...(o.tenantId !== undefined && { tenant_id: o.tenantId }),
    ...(token && { token }),
    ...(resumeToken !== null && { resume_token: resumeToken }),
    ...(resumeToken !== null && !direction.targets && heard.lastIndex !== null && { last_index: heard.lastIndex }),
    ...(resumeToken !== null && direction.targets && { last_indexes: heard.lastIndexes }),
  };
}
