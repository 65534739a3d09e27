// The microphone: frames of 20 ms at 16 kHz, mono.
import { Emitter } from "./emitter.js";
import { Resampler } from "./resample.js";
export const FRAME = 320;
export const FRAME_MS = 20;
export class MicrophoneError extends Error {
    trouble;
    constructor(trouble, message) {
        super(message);
        this.name = "MicrophoneError";
        this.trouble = trouble;
    }
}
const TROUBLES = {
    NotAllowedError: "refused", SecurityError: "refused", NotFoundError: "missing", OverconstrainedError: "missing",
    NotReadableError: "busy", AbortError: "busy",
};
export class Microphone extends Emitter {
    #options;
    #context = null;
    #stream = null;
    #resampler = null;
    #rest = new Float32Array(0);
    #opening = null;
    constructor(options = {}) {
        super();
        this.#options = options;
    }
    get isOpen() {
        return this.#stream !== null;
    }
    /** Asks for it and listens. Has to come from a touch or a key, or browsers stay silent. */
    open() {
        this.#opening ??= this.#open().finally(() => (this.#opening = null));
        return this.#opening;
    }
    /** Lets go of it, so that the sign of the browser goes out. */
    close() {
        this.#stream?.getTracks().forEach((track) => track.stop());
        void this.#context?.close();
        this.#stream = this.#context = this.#resampler = null;
        this.#rest = new Float32Array(0);
    }
    async #open() {
        if (this.#stream)
            return void (await this.#context?.resume());
        if (!globalThis.isSecureContext || !navigator.mediaDevices?.getUserMedia) {
            throw new MicrophoneError("insecure", "browsers give the microphone to pages of https or of this machine only");
        }
        try {
            const { deviceId } = this.#options;
            const audio = {
                channelCount: 1, echoCancellation: true, noiseSuppression: true, autoGainControl: true,
                ...(deviceId && { deviceId: { exact: deviceId } }),
            };
            this.#stream = await navigator.mediaDevices.getUserMedia({ audio });
            await this.#listen(this.#stream);
        }
        catch (error) {
            this.close();
            const { name, message } = error;
            throw error instanceof MicrophoneError ? error : new MicrophoneError(TROUBLES[name] ?? "failed", message);
        }
    }
    async #listen(stream) {
        const context = new AudioContext({ latencyHint: "interactive" });
        this.#context = context;
        await context.audioWorklet.addModule(this.#options.workletUrl ?? new URL("./worklet.js", import.meta.url));
        await context.resume();
        this.#resampler = new Resampler(context.sampleRate);
        const source = context.createMediaStreamSource(stream);
        const capture = new AudioWorkletNode(context, "lingua-capture", { numberOfOutputs: 1, channelCount: 1 });
        capture.port.onmessage = ({ data }) => this.#take(data);
        // What is connected to nothing is not run; its output is silence.
        source.connect(capture).connect(context.destination);
        const [track] = stream.getAudioTracks();
        track?.addEventListener("ended", () => {
            this.close();
            this.emit("ended", new MicrophoneError("refused", "the microphone was taken away"));
        });
    }
    #take(block) {
        if (!this.#resampler)
            return;
        const more = this.#resampler.push(block);
        const all = new Float32Array(this.#rest.length + more.length);
        all.set(this.#rest);
        all.set(more, this.#rest.length);
        let at = 0;
        for (; at + FRAME <= all.length; at += FRAME)
            this.emit("frame", all.slice(at, at + FRAME));
        this.#rest = all.slice(at);
    }
}
