/** A proxy that passes HTTP on and, while it is told so, no WebSocket: what some offices have. */
import http from 'node:http';
import net from 'node:net';
import { after } from 'node:test';

export interface Proxy {
  readonly url: string;
  allowsSockets: boolean;
  /** Cuts what goes through now. */
  cut(): void;
}

export async function proxyTo(url: string): Promise<Proxy> {
  const target = new URL(url);
  const links = new Set<net.Socket>();
  const server = http.createServer((request, answer) => {
    const passed = http.request(
      { host: target.hostname, port: target.port, path: request.url, method: request.method, headers: request.headers },
      (given) => {
        answer.writeHead(given.statusCode ?? 502, given.headers);
        given.pipe(answer);
      },
    );
    passed.on('error', () => answer.destroy());
    answer.on('close', () => passed.destroy());
    request.pipe(passed);
  });
  server.on('connection', (link) => {
    links.add(link);
    link.on('close', () => links.delete(link));
  });
  server.on('upgrade', (request, link, head) => {
    link.on('error', () => link.destroy());
    if (!proxy.allowsSockets) {
      link.end('HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\n\r\n');
      return;
    }
    const passed = net.connect(Number(target.port), target.hostname);
    passed.on('error', () => link.destroy());
    link.on('close', () => passed.destroy());
    const headers = request.rawHeaders.map((word, index) => (index % 2 ? `${word}\r\n` : `${word}: `)).join('');
    passed.write(`GET ${request.url} HTTP/1.1\r\n${headers}\r\n`);
    passed.write(head);
    passed.pipe(link).pipe(passed);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const cut = () => links.forEach((link) => link.destroy());
  after(() => {
    cut();
    server.close();
  });
  const { port } = server.address() as net.AddressInfo;
  const proxy: Proxy = { url: `http://127.0.0.1:${port}`, allowsSockets: false, cut };
  return proxy;
}
