/** A server that says what a test wants: transcripts, other versions, silence. */
import { after } from 'node:test';
import type { AddressInfo } from 'node:net';
import { WebSocketServer, type WebSocket } from 'ws';

export type Frame = { type: string; id?: string } & Record<string, any>;

export const WELCOME = {
  type: 'antiphon:welcome',
  server: { name: 'antiphon', version: '0.1.0' },
  protocol: 1,
  connection_id: 'c',
  max_message_bytes: 1000,
  resume_window_s: 1,
  claim_lease_ms: 30000,
  connection_expires_at: 0,
  features: [],
};

/** `answer` is given each frame and sends what it likes. Gives the address. */
export async function serving(answer: (frame: Frame, socket: WebSocket) => void): Promise<string> {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  server.on('connection', (socket) => socket.on('message', (text) => answer(JSON.parse(String(text)), socket)));
  after(() => {
    for (const socket of server.clients) socket.terminate();
    server.close();
  });
  await new Promise((resolve) => server.once('listening', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
