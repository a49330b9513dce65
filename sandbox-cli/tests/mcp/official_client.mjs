// Uses `sandbox mcp` with the official TypeScript client, as an agent would.
//
// Usage: official_client.mjs PROGRAM PACKAGES. PACKAGES is a folder with node_modules. Ends with an error
// if the server answers otherwise than expected.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const [program, packages] = process.argv.slice(2);
const sdk = `${packages}/node_modules/@modelcontextprotocol/sdk/dist/esm/client`;
const { Client } = await import(`${sdk}/index.js`);
const { StdioClientTransport } = await import(`${sdk}/stdio.js`);

const server = new StdioClientTransport({ command: program, args: ["mcp"] });
const client = new Client({ name: "test", version: "1" });
await client.connect(server);

async function call(name, values, options) {
  const result = await client.callTool({ name, arguments: values }, undefined, options);
  return { ...result, data: result.structuredContent };
}

/// The command lines of all processes that have this argument.
function processes(argument) {
  const ids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return ids.filter((id) => {
    try {
      return readFileSync(`/proc/${id}/cmdline`, "utf8").split("\0").includes(argument);
    } catch {
      return false; // It has ended.
    }
  });
}

async function until(what, holds) {
  for (let tries = 0; !holds(); tries += 1) {
    assert(tries < 300, what);
    await sleep(100);
  }
}

const names = (await client.listTools()).tools.map((tool) => tool.name);
for (const name of ["run_code", "session_run", "sandbox_create", "why", "remove"]) {
  assert(names.includes(name), `${name} in ${names}`);
}
const once = await call("run_code", { language: "python", code: "print(6 * 7)" });
assert.equal(once.data.stdout.text, "42\n");

// A sandbox, with a session that keeps its state and shows an image.
const { sandbox } = (await call("sandbox_create", {})).data;
const cell = (code) => call("session_run", { sandbox, language: "python", code });
await cell("class Dot:\n    def _repr_png_(self): return b'\\x89PNG dot'\ndot = Dot()");
const shown = (await cell("dot")).content.find((part) => part.type === "image");
assert.equal(shown.mimeType, "image/png");
assert(Buffer.from(shown.data, "base64").includes("dot"));

// Neither the policy nor the network lets code reach a host.
const wider = await call("sandbox_create", { egress: ["example.org:443"] });
assert(wider.isError && wider.data.error.kind === "policy_exceeded", JSON.stringify(wider));
const why = await call("why", { subject: "example.org:443" });
assert.match(why.content[0].text, /denied/, JSON.stringify(why));
const connect = "import socket; socket.create_connection(('192.0.2.1', 443), 5)";
const refused = await cell(connect);
assert.match(refused.content[0].text, /unreachable|refused|not permitted/i);

// A cancelled call ends its processes, and the sandbox goes on.
const marker = `${process.pid}4242`;
const abort = new AbortController();
const command = `while :; do sh -c 'exec sleep ${marker}'; done`;
const loop = call("sandbox_exec", { sandbox, command }, { signal: abort.signal });
const cancelled = assert.rejects(loop);
await until("the loop runs", () => processes(marker).length > 0);
abort.abort("enough");
await cancelled;
await until("the loop ends", () => processes(marker).length === 0);
assert.equal((await cell("type(dot).__name__")).content[0].text.includes("Dot"), true);

// A killed server leaves nothing.
call("sandbox_exec", { sandbox, command: `exec sleep ${marker}` }).catch(() => {});
await until("the command runs", () => processes(marker).length > 0);
process.kill(server.pid, "SIGKILL");
await until("nothing is left", () => processes(marker).length === 0);
process.exit(0);
