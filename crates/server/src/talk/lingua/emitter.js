// Events with types: what can be heard, and with which payload, is said by `Events`.
/** Something whose events can be listened to. */
export class Emitter {
    #listeners = new Map();
    /** Calls `listener` with every event of that name; the answer ends it. */
    on(name, listener) {
        const known = this.#listeners.get(name) ?? new Set();
        this.#listeners.set(name, known);
        known.add(listener);
        return () => known.delete(listener);
    }
    /** The next event of that name. */
    once(name) {
        return new Promise((resolve) => {
            const end = this.on(name, (event) => {
                end();
                resolve(event);
            });
        });
    }
    emit(name, event) {
        for (const listener of [...(this.#listeners.get(name) ?? [])]) {
            try {
                listener(event);
            }
            catch (error) {
                // A listener that throws is its owner's fault; the others still hear, and nothing here is left half done.
                queueMicrotask(() => {
                    throw error;
                });
            }
        }
    }
}
