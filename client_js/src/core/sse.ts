/** Reads the lines of a `text/event-stream` body (PROTOCOL 11.3). */
export interface SseMessage {
  readonly event: string;
  readonly id: string;
  readonly data: string;
}

export class SseReader {
  #rest = '';
  #event = '';
  #id = '';
  #data: string[] = [];

  /** The messages that are complete with this piece of text. */
  take(text: string): SseMessage[] {
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop()!;
    const messages: SseMessage[] = [];
    for (const line of lines) {
      const message = this.#line(line.endsWith('\r') ? line.slice(0, -1) : line);
      if (message) messages.push(message);
    }
    return messages;
  }

  #line(line: string): SseMessage | null {
    if (line === '') return this.#dispatch();
    const [, field, value = ''] = /^([^:]*):? ?(.*)$/s.exec(line)!;
    if (field === 'event') this.#event = value;
    else if (field === 'id') this.#id = value;
    else if (field === 'data') this.#data.push(value);
    return null;
  }

  #dispatch(): SseMessage | null {
    const message = { event: this.#event, id: this.#id, data: this.#data.join('\n') };
    const isEmpty = this.#data.length === 0;
    this.#event = '';
    this.#data = [];
    return isEmpty ? null : message;
  }
}
