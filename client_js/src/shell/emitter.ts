/** Listeners by name. A listener that throws is told of where errors of handlers belong, and stops nobody. */
export class Emitter<Events extends { [name in keyof Events]: unknown[] }> {
  readonly #listeners = new Map<keyof Events, Set<(...values: any[]) => void>>();

  /** Calls `listener` at each event of this name, until the function that is given back is called. */
  on<Name extends keyof Events>(name: Name, listener: (...values: Events[Name]) => void): () => void {
    let listeners = this.#listeners.get(name);
    if (!listeners) this.#listeners.set(name, (listeners = new Set()));
    const added = listener as (...values: any[]) => void;
    listeners.add(added);
    return () => void listeners.delete(added);
  }

  protected emit<Name extends keyof Events>(name: Name, ...values: Events[Name]): void {
    for (const listener of [...(this.#listeners.get(name) ?? [])]) {
      try {
        listener(...values);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }
}
