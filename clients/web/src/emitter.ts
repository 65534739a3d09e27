// Events with types: what can be heard, and with which payload, is said by `Events`.

type Listener<T> = (event: T) => void;

/** Something whose events can be listened to. */
export class Emitter<Events extends object> {
  readonly #listeners = new Map<keyof Events, Set<Listener<never>>>();

  /** Calls `listener` with every event of that name; the answer ends it. */
  on<Name extends keyof Events>(name: Name, listener: Listener<Events[Name]>): () => void {
    const known = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, known);
    known.add(listener as Listener<never>);
    return () => known.delete(listener as Listener<never>);
  }

  /** The next event of that name. */
  once<Name extends keyof Events>(name: Name): Promise<Events[Name]> {
    return new Promise((resolve) => {
      const end = this.on(name, (event) => {
        end();
        resolve(event);
      });
    });
  }

  protected emit<Name extends keyof Events>(name: Name, event: Events[Name]): void {
    for (const listener of [...(this.#listeners.get(name) ?? [])]) {
      try {
        (listener as Listener<Events[Name]>)(event);
      } catch (error) {
        // A listener that throws is its owner's fault; the others still hear, and nothing here is left half done.
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }
}
