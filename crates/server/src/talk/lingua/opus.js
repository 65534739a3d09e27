// Opus where the browser can do it (WebCodecs). On the wire it is a run of packets, each behind its length.
import { toPcm16 } from "./resample.js";
const RATE = 16_000;
const MAX_PACKET = 0xffff;
const CONFIG = {
    codec: "opus", sampleRate: RATE, numberOfChannels: 1, bitrate: 24_000,
    opus: { frameDuration: 20_000, application: "voip", signal: "voice" },
};
/** The codec that this browser can speak in. */
export async function bestCodec() {
    if (typeof AudioEncoder === "undefined" || typeof AudioData === "undefined")
        return "pcm16";
    try {
        return (await AudioEncoder.isConfigSupported(CONFIG)).supported ? "opus" : "pcm16";
    }
    catch {
        return "pcm16";
    }
}
/** Packets one after the other, each behind its length. */
export function joinPackets(packets) {
    const joined = new Uint8Array(packets.reduce((sum, packet) => sum + 2 + packet.length, 0));
    let at = 0;
    for (const packet of packets) {
        if (packet.length > MAX_PACKET)
            throw new RangeError("a packet is longer than its length can say");
        joined.set([packet.length & 0xff, packet.length >> 8], at);
        joined.set(packet, at + 2);
        at += 2 + packet.length;
    }
    return joined;
}
/** The packets of such a run; what is cut off at its end is left out. */
export function splitPackets(run) {
    const packets = [];
    let at = 0;
    while (at + 2 <= run.length) {
        const end = at + 2 + (run[at] | (run[at + 1] << 8));
        if (end > run.length)
            break;
        packets.push(run.subarray(at + 2, end));
        at = end;
    }
    return packets;
}
/** A piece of speech as it is sent has about so many milliseconds. */
const PIECE_MS = 100;
/** An encoder that gives pieces of speech to `send`. What it cannot do is told to `failed`. */
export function encoder(codec, send, failed) {
    return codec === "opus" ? opusEncoder(send, failed) : pcmEncoder(send);
}
function pcmEncoder(send) {
    const size = (RATE * PIECE_MS) / 1000;
    let kept = [];
    let count = 0;
    const give = () => {
        if (count === 0)
            return;
        const samples = new Float32Array(count);
        let at = 0;
        for (const block of kept) {
            samples.set(block, at);
            at += block.length;
        }
        kept = [];
        count = 0;
        send(toPcm16(samples));
    };
    return {
        push(samples) {
            kept.push(samples);
            count += samples.length;
            if (count >= size)
                give();
        },
        flush: () => Promise.resolve(give()),
        close: () => { },
    };
}
function opusEncoder(send, failed) {
    let packets = [];
    let at = 0;
    const give = () => {
        if (packets.length > 0)
            send(joinPackets(packets));
        packets = [];
    };
    const codec = new AudioEncoder({
        output(chunk) {
            const packet = new Uint8Array(chunk.byteLength);
            chunk.copyTo(packet);
            packets.push(packet);
            if (packets.length * 20 >= PIECE_MS)
                give();
        },
        error: failed,
    });
    codec.configure(CONFIG);
    return {
        push(samples) {
            const timestamp = Math.round((at * 1e6) / RATE);
            at += samples.length;
            const data = samples;
            const block = new AudioData({ format: "f32", sampleRate: RATE, numberOfChannels: 1, numberOfFrames: samples.length, timestamp, data });
            codec.encode(block);
            block.close();
        },
        async flush() {
            await codec.flush();
            give();
        },
        close() {
            if (codec.state !== "closed")
                codec.close();
        },
    };
}
/** The samples of a run of packets, and their rate. */
export async function decodeOpus(run, rate = 48_000) {
    if (typeof AudioDecoder === "undefined")
        throw new Error("this browser cannot decode Opus packets");
    const blocks = [];
    let heardRate = rate;
    let failure = null;
    const decoder = new AudioDecoder({
        output(block) {
            const samples = new Float32Array(block.numberOfFrames);
            block.copyTo(samples, { planeIndex: 0, format: "f32-planar" });
            heardRate = block.sampleRate;
            blocks.push(samples);
            block.close();
        },
        error(error) {
            failure = error;
        },
    });
    decoder.configure({ codec: "opus", sampleRate: rate, numberOfChannels: 1 });
    splitPackets(run).forEach((data, i) => decoder.decode(new EncodedAudioChunk({ type: "key", timestamp: i * 20_000, data })));
    await decoder.flush().catch((error) => (failure ??= error));
    if (decoder.state !== "closed")
        decoder.close();
    if (failure)
        throw failure;
    const samples = new Float32Array(blocks.reduce((sum, block) => sum + block.length, 0));
    let at = 0;
    for (const block of blocks) {
        samples.set(block, at);
        at += block.length;
    }
    return { samples, rate: heardRate };
}
