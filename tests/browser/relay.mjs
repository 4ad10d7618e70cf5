/** A TCP relay between the page and the server: the network that a test can take away. */
import net from 'node:net';

export class Relay {
  #links = new Set();
  #isDown = false;
  #target = new URL('http://127.0.0.1');

  /** @param {string} url of the server @returns {Promise<Relay>} */
  static async to(url) {
    const relay = new Relay();
    relay.target(url);
    relay.server = net.createServer((client) => relay.#accept(client));
    await new Promise((resolve) => relay.server.listen(0, '127.0.0.1', resolve));
    relay.url = `http://127.0.0.1:${relay.server.address().port}/`;
    return relay;
  }

  /** Leads new connections to another server. @param {string} url */
  target(url) {
    this.#target = new URL(url);
  }

  #accept(client) {
    if (this.#isDown) {
      client.destroy();
      return;
    }
    const target = net.connect(Number(this.#target.port), this.#target.hostname);
    const link = { client, target };
    this.#links.add(link);
    for (const [from, to] of [
      [client, target],
      [target, client],
    ]) {
      from.pipe(to);
      from.on('error', () => to.destroy());
      from.on('close', () => {
        to.destroy();
        this.#links.delete(link);
      });
    }
  }

  /** Every connection is cut and new ones are refused. */
  down() {
    this.#isDown = true;
    for (const { client, target } of this.#links) {
      client.destroy();
      target.destroy();
    }
  }

  up() {
    this.#isDown = false;
  }

  /** Connections that exist carry nothing any more, and nobody is told; new ones work. */
  swallow() {
    for (const { client, target } of this.#links) {
      client.unpipe(target);
      target.unpipe(client);
      client.resume();
      target.resume();
    }
  }

  async close() {
    this.down();
    await new Promise((resolve) => this.server.close(resolve));
  }
}
