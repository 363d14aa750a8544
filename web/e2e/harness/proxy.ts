/** Passes requests on to a server, and cuts what it has begun to answer when the server is gone, as the server itself would. */
import { type IncomingHttpHeaders, type RequestListener, request } from 'node:http';

/** `change` gives the headers with which a request goes on. */
export function passOn(
  target: string,
  change: (headers: IncomingHttpHeaders) => IncomingHttpHeaders = (same) => same,
): RequestListener {
  const { hostname, port } = new URL(target);
  return (asked, answered) => {
    const headers = change(asked.headers);
    const passed = request({ hostname, port, method: asked.method, path: asked.url, headers }, (answer) => {
      answered.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(answered);
      answer.on('close', () => answer.complete || asked.socket.destroy());
    });
    passed.on('error', () => asked.socket.destroy());
    answered.on('close', () => passed.destroy());
    asked.pipe(passed);
  };
}
