// The folder that the tools may touch. A path never leads out of it: not with `..`, not absolute, not over a link.
import { constants } from 'node:fs';
import { lstat, mkdir, open, realpath, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { randomUUID } from 'node:crypto';

const MOST_BYTES = 256 * 1024;

export class Workspace {
  /** @param {string} root a real path */
  constructor(root) {
    this.root = root;
  }

  /** @param {string} folder */
  static async open(folder) {
    return new Workspace(await realpath(folder));
  }

  /** The text of a file; null if there is none. Throws for what is no text or too long. @param {string} name */
  async read(name) {
    const file = await this.#locate(name);
    let handle;
    try {
      // O_NOFOLLOW: a link that was put there since it was looked at is not followed either.
      handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW);
    } catch (error) {
      if (error.code === 'ENOENT') return null;
      throw new Error(`${name} cannot be read: ${error.code}`);
    }
    try {
      const { size } = await handle.stat();
      if (size > MOST_BYTES) throw new Error(`${name} is larger than ${MOST_BYTES} bytes`);
      return new TextDecoder('utf-8', { fatal: true }).decode(await handle.readFile());
    } finally {
      await handle.close();
    }
  }

  /** Puts a text in the place of a file in one step; null takes the file away. @param {string} name @param {string | null} text */
  async write(name, text) {
    const file = await this.#locate(name);
    if (text === null) {
      await rm(file);
      return;
    }
    await mkdir(path.dirname(file), { recursive: true });
    const beside = `${file}.${randomUUID()}`;
    const handle = await open(beside, 'wx');
    try {
      await handle.writeFile(text);
    } finally {
      await handle.close();
    }
    await rename(beside, file);
  }

  /** Where a name leads, if that is inside. @param {string} name */
  async #locate(name) {
    if (typeof name !== 'string' || name === '' || name.includes('\0')) throw new Error('the path is no path');
    const inside = path.relative(this.root, path.resolve(this.root, name));
    if (path.isAbsolute(name) || inside === '' || inside.split(path.sep)[0] === '..') {
      throw new Error(`${name} is outside of the workspace`);
    }
    let at = this.root;
    for (const part of inside.split(path.sep)) {
      at = path.join(at, part);
      const found = await lstat(at).catch(() => null);
      if (found?.isSymbolicLink()) throw new Error(`${name} leads over a link`);
    }
    return at;
  }
}
