// Runs beside the sound card: hands over what the microphone gives, in blocks that are worth a message.
// It is a file of its own because pages with a strict policy load no other; it imports nothing.
const BLOCK = 1024;
class Capture extends AudioWorkletProcessor {
    #block = new Float32Array(BLOCK);
    #filled = 0;
    process(inputs) {
        const channels = inputs[0] ?? [];
        const length = channels[0]?.length ?? 0;
        for (let i = 0; i < length; i += 1) {
            let sum = 0;
            for (const channel of channels)
                sum += channel[i];
            this.#block[this.#filled] = sum / channels.length;
            this.#filled += 1;
            if (this.#filled === BLOCK)
                this.#give();
        }
        return true;
    }
    #give() {
        const block = this.#block;
        this.port.postMessage(block, [block.buffer]);
        this.#block = new Float32Array(BLOCK);
        this.#filled = 0;
    }
}
registerProcessor("lingua-capture", Capture);
export {};
