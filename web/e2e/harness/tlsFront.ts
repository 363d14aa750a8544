/** HTTPS on loopback: a certificate that no authority has signed, and pages. */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import type { RequestListener } from 'node:http';
import { createServer } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

export interface Certificate {
  key: string;
  cert: string;
}

export async function makeCertificate(): Promise<Certificate> {
  const folder = await mkdtemp(join(tmpdir(), 'sederunt-certificate-'));
  const [keyFile, certFile] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
  const what = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-subj', '/CN=localhost'];
  try {
    await promisify(execFile)('openssl', ['req', '-x509', ...what, '-days', '2', '-keyout', keyFile, '-out', certFile]);
    return { key: await readFile(keyFile, 'utf8'), cert: await readFile(certFile, 'utf8') };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Answers on the port until the returned function is called. */
export async function listenTls(
  port: number,
  certificate: Certificate,
  answer: RequestListener,
): Promise<() => Promise<void>> {
  const server = createServer(certificate, answer);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
  return () =>
    new Promise((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
}

/** One page that holds a frame. */
export function pageWithFrame(address: string): RequestListener {
  return (_, answered) => {
    answered.writeHead(200, { 'content-type': 'text/html; charset=utf-8' });
    answered.end(
      `<!doctype html><html lang="en"><title>Fair</title><h1>Our fair</h1><iframe title="Form" src="${address}"></iframe>`,
    );
  };
}
