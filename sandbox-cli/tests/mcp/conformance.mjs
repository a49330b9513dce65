// Runs scenarios of the protocol's conformance runner against a server that requires a token.
//
// Usage: conformance.mjs RUNNER URL TOKEN SCENARIO… Ends with an error if one fails.

import { spawnSync } from "node:child_process";
import { createServer, request } from "node:http";
import { Worker, isMainThread, workerData } from "node:worker_threads";

if (!isMainThread) {
  const { target, token, port } = workerData;
  // The names in the headers stay, so that the server checks them.
  const rename = (value) => value?.replace(`:${Atomics.load(port, 0)}`, `:${target.port}`);
  const proxy = createServer((incoming, outgoing) => {
    const { host, origin, ...headers } = incoming.headers;
    Object.assign(headers, { host: rename(host), authorization: `Bearer ${token}` });
    if (origin) headers.origin = rename(origin);
    const { hostname, port: targetPort } = target;
    const options = { hostname, port: targetPort, path: incoming.url, method: incoming.method, headers };
    const sent = request(options, (answer) => {
      outgoing.writeHead(answer.statusCode, answer.headers);
      answer.pipe(outgoing);
    });
    sent.on("error", () => outgoing.destroy());
    outgoing.on("close", () => sent.destroy());
    incoming.pipe(sent);
  });
  proxy.listen(0, "127.0.0.1", () => {
    Atomics.store(port, 0, proxy.address().port);
    Atomics.notify(port, 0);
  });
} else {
  const [runner, url, token, ...scenarios] = process.argv.slice(2);
  const { hostname, port: targetPort, pathname } = new URL(url);
  const port = new Int32Array(new SharedArrayBuffer(4));
  const target = { hostname, port: targetPort };
  new Worker(new URL(import.meta.url), { workerData: { target, token, port } });
  Atomics.wait(port, 0, 0);
  const own = `http://${hostname}:${port[0]}${pathname}`;
  let failed = 0;
  for (const scenario of scenarios) {
    const arguments_ = [runner, "server", "--url", own, "--scenario", scenario];
    const run = spawnSync(process.execPath, arguments_, { encoding: "utf8", timeout: 60_000 });
    if (run.status !== 0) {
      failed += 1;
      console.error(`${scenario}: ${run.status ?? run.signal}\n${run.stdout}${run.stderr}`);
    }
  }
  process.exit(failed === 0 ? 0 : 1);
}
