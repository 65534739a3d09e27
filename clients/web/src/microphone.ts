// The microphone: frames of 20 ms at 16 kHz, mono.

import { Emitter } from "./emitter.js";
import { Resampler } from "./resample.js";

export const FRAME = 320;
export const FRAME_MS = 20;

export interface MicrophoneOptions {
  /** Where `worklet.js` of this package is served. */
  workletUrl?: string | URL;
  /** For one of several microphones. */
  deviceId?: string;
}

/** Why there is no sound: `insecure` (no https), `refused`, `missing`, `busy` or `failed`. */
export type MicrophoneTrouble = "insecure" | "refused" | "missing" | "busy" | "failed";

export class MicrophoneError extends Error {
  readonly trouble: MicrophoneTrouble;

  constructor(trouble: MicrophoneTrouble, message: string) {
    super(message);
    this.name = "MicrophoneError";
    this.trouble = trouble;
  }
}

export interface MicrophoneEvents {
  frame: Float32Array;
  /** It was taken away: unplugged, or the permission withdrawn. */
  ended: MicrophoneError;
}

const TROUBLES: Record<string, MicrophoneTrouble> = {
  NotAllowedError: "refused", SecurityError: "refused", NotFoundError: "missing", OverconstrainedError: "missing",
  NotReadableError: "busy", AbortError: "busy",
};

export class Microphone extends Emitter<MicrophoneEvents> {
  readonly #options: MicrophoneOptions;
  #context: AudioContext | null = null;
  #stream: MediaStream | null = null;
  #resampler: Resampler | null = null;
  #rest = new Float32Array(0);
  #opening: Promise<void> | null = null;

  constructor(options: MicrophoneOptions = {}) {
    super();
    this.#options = options;
  }

  get isOpen(): boolean {
    return this.#stream !== null;
  }

  /** Asks for it and listens. Has to come from a touch or a key, or browsers stay silent. */
  open(): Promise<void> {
    this.#opening ??= this.#open().finally(() => (this.#opening = null));
    return this.#opening;
  }

  /** Lets go of it, so that the sign of the browser goes out. */
  close(): void {
    this.#stream?.getTracks().forEach((track) => track.stop());
    void this.#context?.close();
    this.#stream = this.#context = this.#resampler = null;
    this.#rest = new Float32Array(0);
  }

  async #open(): Promise<void> {
    if (this.#stream) return void (await this.#context?.resume());
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
    } catch (error) {
      this.close();
      const { name, message } = error as Error;
      throw error instanceof MicrophoneError ? error : new MicrophoneError(TROUBLES[name] ?? "failed", message);
    }
  }

  async #listen(stream: MediaStream): Promise<void> {
    const context = new AudioContext({ latencyHint: "interactive" });
    this.#context = context;
    await context.audioWorklet.addModule(this.#options.workletUrl ?? new URL("./worklet.js", import.meta.url));
    await context.resume();
    this.#resampler = new Resampler(context.sampleRate);
    const source = context.createMediaStreamSource(stream);
    const capture = new AudioWorkletNode(context, "lingua-capture", { numberOfOutputs: 1, channelCount: 1 });
    capture.port.onmessage = ({ data }: MessageEvent<Float32Array>) => this.#take(data);
    // What is connected to nothing is not run; its output is silence.
    source.connect(capture).connect(context.destination);
    const [track] = stream.getAudioTracks();
    track?.addEventListener("ended", () => {
      this.close();
      this.emit("ended", new MicrophoneError("refused", "the microphone was taken away"));
    });
  }

  #take(block: Float32Array): void {
    if (!this.#resampler) return;
    const more = this.#resampler.push(block);
    const all = new Float32Array(this.#rest.length + more.length);
    all.set(this.#rest);
    all.set(more, this.#rest.length);
    let at = 0;
    for (; at + FRAME <= all.length; at += FRAME) this.emit("frame", all.slice(at, at + FRAME));
    this.#rest = all.slice(at);
  }
}
