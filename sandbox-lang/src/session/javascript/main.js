// The driver of JavaScript sessions, part 1: runs cells in the main thread.
//
// V8 runs them as the console of its debugger does: declarations stay and can be repeated, closures
// see later changes, `await` works, and the last expression has a value.
'use strict';
{
  const fs = require('node:fs');
  const util = require('node:util');
  const path = require('node:path');
  const inspector = require('node:inspector');
  const { createRequire } = require('node:module');
  const { Worker } = require('node:worker_threads');
  const acorn = require('internal/deps/acorn/acorn/dist/acorn');

  const [workerSource, optionsText] = process.argv.slice(1);
  const OPTIONS = JSON.parse(optionsText);
  const MAX_TEXT = 64 * 1024;
  const MAX_FRAMES = 100;
  const MAX_NAMES = 500;
  const MAX_DISPLAYS = 1000;
  const TAKE = Symbol.for('sandbox.session.take');
  const IMPORT = 'import$';

  const session = new inspector.Session();
  session.connect();
  const worker = new Worker(workerSource, { eval: true, stdout: false, stderr: false });
  let running = null;
  let lastNames = null;
  const unread = Buffer.alloc(64 * 1024);
  let taken;

  const post = (method, parameters) => new Promise((resolve, reject) => {
    session.post(method, parameters, (error, result) => (error ? reject(error) : resolve(result)));
  });

  // The value that the debugger's object stands for.
  async function valueOf(object) {
    if (object.objectId) {
      await post('Runtime.callFunctionOn', {
        objectId: object.objectId,
        functionDeclaration: `function (value) { process[Symbol.for('sandbox.session.take')](value); }`,
        arguments: [{ objectId: object.objectId }],
      });
      const value = taken;
      taken = undefined;
      return value;
    }
    const { unserializableValue: text } = object;
    if (text === undefined) return object.value;
    return text.endsWith('n') ? BigInt(text.slice(0, -1)) : Number(text);
  }

  // Import statements and calls of import work only in modules. Lines stay as they are.
  function withImports(code) {
    if (!/\bimport\b/.test(code)) return code;
    let tree;
    try {
      tree = acorn.parse(code, { ecmaVersion: 'latest', sourceType: 'module', allowHashBang: true });
    } catch {
      return code; // V8 says what is wrong.
    }
    const edits = [];
    for (const node of tree.body) {
      if (node.type === 'ImportDeclaration') edits.push([node.start, node.end, declaration(code, node)]);
    }
    const visit = (node) => {
      if (!node || typeof node !== 'object') return;
      if (node.type === 'ImportExpression') edits.push([node.start, node.start + 'import'.length, IMPORT]);
      for (const key of Object.keys(node)) visit(node[key]);
    };
    visit(tree.body);
    edits.sort((one, other) => other[0] - one[0]);
    for (const [start, end, text] of edits) code = code.slice(0, start) + text + code.slice(end);
    return code;
  }

  function declaration(code, node) {
    const lines = '\n'.repeat(code.slice(node.start, node.end).split('\n').length - 1);
    const found = `await ${IMPORT}(${JSON.stringify(node.source.value)})`;
    const named = [];
    let all = null;
    for (const { type, imported, local } of node.specifiers) {
      if (type === 'ImportNamespaceSpecifier') all = local.name;
      else {
        const name = type === 'ImportDefaultSpecifier' ? 'default' : imported.name ?? imported.value;
        named.push(`${JSON.stringify(name)}: ${local.name}`);
      }
    }
    if (all && named.length) return `const ${all} = ${found}, { ${named.join(', ')} } = ${all};${lines}`;
    if (all) return `const ${all} = ${found};${lines}`;
    return named.length ? `const { ${named.join(', ')} } = ${found};${lines}` : `${found};${lines}`;
  }

  function encoded(data, limit) {
    const contents = {};
    const omitted = {};
    let room = limit;
    for (const [mime, content] of Object.entries(data)) {
      const isBytes = content instanceof Uint8Array;
      const key = isBytes ? 'base64' : typeof content === 'string' ? 'text' : 'json';
      const text = key === 'json' ? JSON.stringify(content) : content;
      if (text === undefined) continue;
      let size = isBytes ? content.length : Buffer.byteLength(text);
      let kept = isBytes ? Buffer.from(content).toString('base64') : text;
      if (size > room) {
        omitted[mime] = size;
        if (mime !== 'text/plain' || key !== 'text') continue;
        // The limit is in bytes, and a unit of the text has at most three.
        kept = text.slice(0, Math.floor(room / 4));
        size = room;
      }
      room -= size;
      contents[mime] = { [key]: kept };
    }
    return [contents, omitted, limit - room];
  }

  async function show(value, kind, cell) {
    let data = {};
    const method = value?.[Symbol.for('Jupyter.display')];
    if (typeof method === 'function') data = { ...await method.call(value) };
    data['text/plain'] ??= util.inspect(value);
    cell.displays += 1;
    if (cell.displays > MAX_DISPLAYS || cell !== running) return;
    const [contents, omitted, size] = encoded(data, Math.min(OPTIONS.display_limit, cell.room));
    cell.room -= size;
    const display = { type: 'display', cell: cell.number, kind, data: contents, omitted, plot: null };
    worker.postMessage({ kind: 'display', display });
  }

  // Without what the driver adds below the code.
  function stackOf(error) {
    const lines = String(error?.stack ?? util.inspect(error)).split('\n');
    const end = lines.findIndex((line) => /^ +at .*(node:inspector|\[eval\])/.test(line));
    return (end < 0 ? lines : lines.slice(0, end)).join('\n');
  }

  function described(error, details, name) {
    const isError = util.types.isNativeError(error) || (error && typeof error.stack === 'string');
    const traceback = stackOf(error);
    let frames = [];
    for (const line of traceback.split('\n')) {
      const found = /^ +at (?:(.*) \()?(.*?):(\d+):\d+\)?$/.exec(line);
      if (found) frames.push({ file: found[2], line: Number(found[3]), function: found[1] ?? null });
    }
    // The first is where the program began, as in Python.
    frames = frames.slice(0, MAX_FRAMES).reverse();
    if (error instanceof SyntaxError && details && !frames.some((frame) => frame.file === name)) {
      frames = [{ file: name, line: details.lineNumber + 1, function: null }];
    }
    return {
      name: isError ? String(error.name).slice(0, MAX_TEXT) : 'Error',
      message: String(isError ? error.message : util.inspect(error)).slice(0, MAX_TEXT),
      traceback: traceback.slice(0, MAX_TEXT) + '\n',
      frames,
    };
  }

  async function names() {
    const { names: lexical } = await post('Runtime.globalLexicalScopeNames', {});
    const own = [...new Set([...lexical, ...Object.keys(globalThis)])];
    const user = own.filter((name) => !initial.has(name)).sort();
    const found = { total: user.length, names: user.slice(0, MAX_NAMES).map((name) => name.slice(0, 100)) };
    if (JSON.stringify(found) === JSON.stringify(lastNames)) return null;
    lastNames = found;
    return found;
  }

  // The file that is standard input goes on where the code stopped to read.
  function openStdin(data) {
    try {
      while (fs.readSync(0, unread, 0, unread.length, null) > 0);
    } catch {
      // The code closed it.
    }
    // All was read, up to the end of the file. What was read needs no space.
    const at = fs.fstatSync(7).size;
    fs.ftruncateSync(7, 0);
    fs.ftruncateSync(7, at);
    if (data.length) fs.writeSync(7, data, 0, data.length, at);
    let stream;
    Object.defineProperty(process, 'stdin', {
      configurable: true,
      enumerable: true,
      get: () => (stream ??= fs.createReadStream(null, { fd: 0, autoClose: false })),
    });
  }

  // Ends a stream's output of the cell. Returns whether the code closed the stream.
  async function mark(stream, descriptor, marker) {
    await new Promise((resolve) => {
      // A closed stream calls back with an error.
      stream.write('', resolve);
    });
    const data = Buffer.from(marker);
    for (let sent = 0; sent < data.length;) {
      try {
        sent += fs.writeSync(descriptor, data, sent);
      } catch (error) {
        if (error.code !== 'EAGAIN') return true;
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    }
    return false;
  }

  async function finish(cell, error, details) {
    if (cell !== running || cell.isEnding) return;
    cell.isEnding = true;
    const done = { type: 'done', cell: cell.number, error: null };
    if (error) done.error = described(error.value, details, cell.name);
    done.variables = await names();
    done.displays_omitted = Math.max(0, cell.displays - MAX_DISPLAYS);
    const closed = [
      await mark(process.stdout, 1, cell.marker),
      await mark(process.stderr, 2, cell.marker),
    ];
    running = null;
    await post('Runtime.releaseObjectGroup', { objectGroup: 'cell' });
    worker.postMessage({ kind: 'done', done, closed });
  }

  async function run({ cell: number, name, code, stdin }, marker) {
    const cell = { number, marker, displays: 0, room: OPTIONS.displays_limit, isEnding: false };
    // A name with a space would not be one for V8.
    cell.name = name.replace(/[<>]/g, '').replace(' ', '-');
    running = cell;
    try {
      openStdin(Buffer.from(stdin, 'base64'));
      const { result, exceptionDetails: details } = await post('Runtime.evaluate', {
        expression: `${withImports(code)}\n//# sourceURL=${cell.name}`,
        replMode: true,
        awaitPromise: true,
        objectGroup: 'cell',
      });
      if (details) return await finish(cell, { value: await valueOf(details.exception) }, details);
      // Waits for a promise.
      const value = await valueOf(result);
      if (value !== undefined) await show(value, 'result', cell);
      await finish(cell);
    } catch (error) {
      // An interrupt ends the evaluation too, and says so itself.
      if (error?.code !== 'ERR_INSPECTOR_COMMAND') await finish(cell, { value: error });
    }
  }

  class Interrupted extends Error {
    name = 'Interrupted';
  }

  worker.on('message', (message) => {
    if (message.kind === 'run') {
      run(message.request, message.marker);
    } else if (message.kind === 'interrupt') {
      if (running?.number === message.cell) {
        const error = new Interrupted('the cell was interrupted');
        error.stack = `Interrupted: ${error.message}`;
        finish(running, { value: error });
      }
    } else if (message.kind === 'end') {
      process.exit();
    }
  });

  Object.defineProperties(globalThis, {
    require: { value: createRequire(path.join(process.cwd(), 'cell.js')), configurable: true, writable: true },
    display: {
      value: async (...values) => {
        const cell = running;
        if (cell) for (const value of values) await show(value, 'display', cell);
      },
      configurable: true,
      writable: true,
    },
    [IMPORT]: { value: (name, options) => import(name, options) },
  });
  Object.defineProperty(process, TAKE, { value: (value) => { taken = value; } });
  process.argv.splice(1);
  // The worker may send both.
  for (const signal of ['SIGINT', 'SIGHUP']) process.on(signal, () => {});
  const report = (error) => process.stderr.write(`Uncaught ${stackOf(error)}\n`);
  process.on('uncaughtException', report);
  process.on('unhandledRejection', report);
  const initial = new Set(Object.keys(globalThis));
  worker.postMessage({ kind: 'ready' });
}
