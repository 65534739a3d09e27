// The words of the session socket, as docs/PROTOCOL.md of the scheduler has them.
/** Whether both mean the same languages. */
export function same(a, b) {
    return a.src === b.src && a.tgt === b.tgt && String(a.targets) === String(b.targets);
}
/** Fields without which a message of that type says nothing. */
const NEEDED = {
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
export function parse(text) {
    let message;
    try {
        message = JSON.parse(text, (_, value) => (value === null ? undefined : value));
    }
    catch {
        return null;
    }
    if (typeof message !== "object" || message === null || typeof message.type !== "string")
        return null;
    if (!Object.hasOwn(NEEDED, message.type))
        return null;
    const needed = NEEDED[message.type];
    const whole = Object.entries(needed).every(([name, type]) => typeof message[name] === type);
    return whole ? message : null;
}
/** A piece of speech as a binary message; the session's id may be left out, and is. */
export function audioFrame(seq, audio, final, timestampMs = 0) {
    const isEnd = final && audio.length === 0;
    const head = isEnd ? 10 : 12;
    const frame = new Uint8Array(head + audio.length);
    const view = new DataView(frame.buffer);
    view.setUint8(0, isEnd ? 0x02 : 0x01);
    view.setUint8(1, 0);
    view.setUint32(2, seq, true);
    view.setUint32(6, timestampMs >>> 0, true);
    if (!isEnd)
        view.setUint8(10, final ? 1 : 0);
    frame.set(audio, head);
    return frame;
}
/** The same as JSON, for schedulers that did not agree to binary frames. */
export function audioChunk(seq, audio, final) {
    const payload = audio.length > 0 ? { payload: toBase64(audio) } : {};
    return JSON.stringify({ type: "audio_chunk", seq, is_final: final, ...payload });
}
export function toBase64(bytes) {
    let text = "";
    // In parts: a call takes only so many arguments.
    for (let at = 0; at < bytes.length; at += 8192)
        text += String.fromCharCode(...bytes.subarray(at, at + 8192));
    return btoa(text);
}
/** The bytes, or `null` if it is no base64. */
export function fromBase64(text) {
    try {
        const raw = atob(text);
        const bytes = new Uint8Array(raw.length);
        for (let i = 0; i < raw.length; i += 1)
            bytes[i] = raw.charCodeAt(i);
        return bytes;
    }
    catch {
        return null;
    }
}
/** What a WebSocket takes of a close reason with `retry_after_ms`, as a scheduler that stops gives it. */
export function retryAfter(reason) {
    const found = /retry_after_ms\D{0,4}(\d{1,9})/.exec(reason);
    return found ? Number(found[1]) : 0;
}
