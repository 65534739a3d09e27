// What is heard of utterances: each ending once and in order, and whose turn it is about.
import { fromBase64 } from "./wire.js";
const PCM_RATE = 16_000;
export class Hearing {
    #outbox;
    #clock;
    #direction;
    #tell;
    #lastIndex = null;
    /** The same for each target that was heard. */
    #lastOf = new Map();
    #nextIndex = 0;
    /** Texts that were sent and have no number yet, and those that have one and no ending. */
    #asked = [];
    #typed = new Map();
    /** Why an utterance fails is told just before its ending. */
    #reasons = new Map();
    constructor(outbox, clock, direction, tell) {
        this.#outbox = outbox;
        this.#clock = clock;
        this.#direction = direction;
        this.#tell = tell;
    }
    /** The last utterance whose ending was told. */
    get lastIndex() {
        return this.#lastIndex;
    }
    /** The same for each target, by its name. */
    get lastIndexes() {
        return Object.fromEntries(this.#lastOf);
    }
    /** The lowest number that an utterance which begins now can have. */
    get nextIndex() {
        return this.#nextIndex;
    }
    /** A text was sent: the next `finalized` is about it. */
    typed(direction) {
        this.#asked.push(direction);
    }
    opened(nextIndex = 0) {
        this.#asked = [];
        this.#nextIndex = Math.max(this.#nextIndex, nextIndex);
    }
    /** Another session counts anew. */
    restart() {
        this.#lastIndex = null;
        this.#lastOf.clear();
        this.#nextIndex = 0;
        this.#typed.clear();
        this.#reasons.clear();
    }
    heard(message) {
        if (message.type === "finalized")
            return this.#numbered(message.utterance_index);
        if ("utterance_index" in message) {
            // After a resume some are told again.
            if (message.utterance_index <= this.#last(message))
                return;
            this.#nextIndex = Math.max(this.#nextIndex, message.utterance_index + 1);
        }
        switch (message.type) {
            case "translation_result":
            case "missing_result":
                return this.#ending(message);
            case "asr_partial": {
                const turn = this.#turnOf(message.utterance_index);
                const { utterance_index: index, text, is_final: final = false } = message;
                return this.#tell("partial", { index, ...this.#whose(turn, message), text, final });
            }
            case "ui_event":
                return this.#step(message);
            case "error":
                return this.#problem(message);
        }
    }
    #numbered(index) {
        const direction = this.#asked.shift();
        if (index === undefined || !direction)
            return;
        this.#typed.set(index, direction);
        this.#nextIndex = Math.max(this.#nextIndex, index + 1);
    }
    #ending(message) {
        const index = message.utterance_index;
        this.#lastIndex = Math.max(index, this.#lastIndex ?? -1);
        const ended = message.tgt_lang === undefined ? this.#direction().targets ?? [] : [message.tgt_lang];
        for (const target of ended)
            this.#lastOf.set(target, Math.max(index, this.#lastOf.get(target) ?? -1));
        const seq = message.audio_ack;
        // With several targets an ending may acknowledge more than its own utterance.
        const known = seq !== undefined && !this.#direction().targets && this.#outbox.turnOf(seq);
        const typed = this.#typed.get(index);
        const turn = typed ? null : known || this.#turnOf(index);
        const endsTurn = turn?.endedAt !== null;
        if (seq !== undefined)
            this.#outbox.ended(seq);
        const latencyMs = turn && endsTurn ? this.#clock.now() - turn.endedAt : null;
        const of = { index, ...this.#whose(turn, message, typed), latencyMs };
        const reason = this.#reasons.get(index) ?? { code: null, hint: null };
        this.#reasons.delete(index);
        this.#typed.delete(index);
        if (message.type === "missing_result")
            return this.#tell("missing", { ...of, ...reason, reason: message.reason });
        this.#tell("result", { ...of, ...content(message) });
    }
    #step(message) {
        const { utterance_index: index, event, elapsed_ms: elapsedMs = null, error_code: code = null, hint = null } = message;
        if (code !== null)
            this.#reasons.set(index, { code, hint });
        this.#tell("step", { index, event, ok: message.status !== "error", elapsedMs, code, hint });
    }
    #problem({ code, message, retry_after_ms: retry, details }) {
        const [first, bytes] = [details?.first_seq, details?.bytes];
        // A stopping instance lets go of what it has not acknowledged: that is not lost, but said again elsewhere.
        if (typeof first === "number" && code !== "DRAINING") {
            const turn = this.#outbox.turnOf(first)?.number ?? null;
            this.#tell("dropped", { bytes: typeof bytes === "number" ? bytes : 0, turn, reason: "scheduler" });
        }
        this.#tell("problem", { code, message, retryAfterMs: retry ?? null, details: details ?? null, fatal: false });
    }
    #whose(turn, { src_lang: src, tgt_lang: tgt }, typed) {
        const own = turn?.direction ?? typed ?? this.#direction();
        // One of several has the scheduler's name; the only one has that which the session gave it.
        const direction = own.targets && tgt !== undefined ? { src: src ?? own.src, tgt } : own;
        return { turn: turn?.number ?? null, direction };
    }
    /** The last utterance whose ending was told, in the target that a message is about; of all if it names none. */
    #last({ tgt_lang: target }) {
        const { targets } = this.#direction();
        if (!targets)
            return this.#lastIndex ?? -1;
        const of = (name) => this.#lastOf.get(name) ?? -1;
        return target === undefined ? Math.min(...targets.map(of)) : of(target);
    }
    /** The latest turn that can have an utterance of this number. */
    #turnOf(index) {
        const able = this.#outbox.turns.filter((turn) => turn.firstIndex !== null && turn.firstIndex <= index);
        return able.at(-1) ?? null;
    }
}
function content(message) {
    const rate = message.extra?.tts_sample_rate;
    return {
        heard: message.text_asr ?? "",
        text: message.text_translated ?? "",
        audio: fromBase64(message.tts_audio ?? "") ?? new Uint8Array(0),
        audioFormat: message.tts_format ?? "",
        audioRate: typeof rate === "number" && rate >= 8_000 && rate <= 192_000 ? rate : PCM_RATE,
        form: message.form ?? null,
        via: message.via ?? null,
        part: message.part_index ?? 0,
        groupId: message.group_id ?? "",
        jobId: message.job_id ?? "",
        traceId: message.trace_id ?? "",
        timings: message.service_timings ?? {},
        extra: message.extra ?? {},
    };
}
