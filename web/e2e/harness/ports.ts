/** Free ports of this machine's loopback address. */
import { createServer } from 'node:net';

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      if (address === null || typeof address === 'string') throw new Error('A TCP server has an address with a port.');
      server.close(() => resolve(address.port));
    });
  });
}
