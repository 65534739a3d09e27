// A clock and a socket that do only what their test says.

export class FakeClock {
  time = 1_000_000;
  timers = [];

  now() { return this.time; }

  after(ms, then) {
    const timer = { at: this.time + ms, then };
    this.timers.push(timer);
    return () => { this.timers = this.timers.filter((one) => one !== timer); };
  }

  /** So much time passes; what is due happens, in its order. */
  async pass(ms) {
    const end = this.time + ms;
    for (;;) {
      const next = this.timers.filter((timer) => timer.at <= end).sort((a, b) => a.at - b.at)[0];
      if (!next) break;
      this.timers = this.timers.filter((one) => one !== next);
      this.time = Math.max(this.time, next.at);
      next.then();
      await settle();
    }
    this.time = end;
    await settle();
  }
}

/** Whatever waits for nothing but its turn has had it. */
export async function settle() {
  for (let i = 0; i < 10; i += 1) await Promise.resolve();
}

export class FakeSocket {
  bufferedAmount = 0;
  binaryType = "";
  onopen = null; onmessage = null; onclose = null; onerror = null;
  sent = [];
  closed = null;

  constructor(url) { this.url = url; }

  send(data) {
    this.sent.push(typeof data === "string" ? JSON.parse(data) : piece(data));
  }

  close(code) { this.closed = code ?? 1005; }

  // What the other side does.
  async opens() {
    this.onopen?.({});
    await settle();
  }

  async says(message) {
    this.onmessage?.({ data: typeof message === "string" ? message : JSON.stringify(message) });
    await settle();
  }

  async ends(code = 1006, reason = "") {
    this.onclose?.({ code, reason });
    await settle();
  }

  /** Messages of that type that were sent. */
  of(type) { return this.sent.filter((message) => message.type === type); }
}

/** A binary frame as its fields. */
function piece(frame) {
  const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
  const kind = view.getUint8(0);
  const length = view.getUint8(1);
  const seq = view.getUint32(2, true);
  if (kind === 2) return { type: "audio", seq, final: true, audio: [] };
  return { type: "audio", seq, final: view.getUint8(10) === 1, audio: [...frame.subarray(12 + length)] };
}

/** A session over fake sockets: `sockets` has them all, the newest last. */
export function staged(Session, options = {}) {
  const clock = new FakeClock();
  const sockets = [];
  const events = [];
  const session = new Session({
    url: ["ws://one", "ws://two"], direction: { src: "en", tgt: "zh" }, clock, backoff: { random: () => 0.5 },
    connect: (url) => {
      sockets.push(new FakeSocket(url));
      return sockets.at(-1);
    },
    ...options,
  });
  for (const name of ["state", "opened", "partial", "result", "missing", "step", "problem", "backpressure", "dropped", "token"]) {
    session.on(name, (event) => events.push({ name, ...event }));
  }
  return {
    session, clock, sockets, events,
    get socket() { return sockets.at(-1); },
    of: (name) => events.filter((event) => event.name === name),
    /** Answers the `session_init` of the newest socket. */
    async accept(ack = {}) {
      await sockets.at(-1).opens();
      await sockets.at(-1).says({
        type: "session_init_ack", session_id: "s-1", use_binary_frame: true, resume_token: "r-1", next_index: 0, heartbeat_interval_ms: 20_000, ...ack,
      });
    },
  };
}

export const bytes = (...values) => Uint8Array.from(values);
