// The driver of JavaScript sessions, part 2: a thread that speaks with the host.
'use strict';
const fs = require('node:fs');
const net = require('node:net');
const crypto = require('node:crypto');
const inspector = require('node:inspector');
const { parentPort } = require('node:worker_threads');

const HEAD = 5;
// How much output of other processes waits between cells.
const HELD = 64 * 1024;
// The largest piece of output in a frame.
const PIECE = 64 * 1024;
// Exit code if the channel is gone: the code closed its descriptors.
const NO_CHANNEL = 121;
// How long the code has to answer an interrupt while it waits for something.
const ANSWER = 100;

const leave = () => process.reallyExit(NO_CHANNEL);

function send(kind, payload) {
  const frame = Buffer.alloc(HEAD + payload.length);
  frame.write(kind, 0, 'latin1');
  frame.writeUInt32BE(payload.length, 1);
  payload.copy(frame, HEAD);
  try {
    for (let sent = 0; sent < frame.length;) sent += fs.writeSync(4, frame, sent);
  } catch {
    leave();
  }
}

// Without lone surrogates, which the host cannot read: JSON has them as escapes.
const sendMessage = (message) => {
  const text = JSON.stringify(message);
  const readable = text.replace(/\\(?:u(d[89a-f]..)|.)/g, (all, lone) => (lone ? '\ufffd' : all));
  send('m', Buffer.from(readable));
};

// The cell that runs, with the end that the main thread told.
let cell = null;

// A stream of the code. The main thread ends its output of a cell with a marker.
class Stream {
  constructor(descriptor, kind) {
    this.kind = kind;
    this.rest = Buffer.alloc(0);
    this.held = Buffer.alloc(0);
    this.total = 0;
    this.room = 0;
    this.hasEnded = true;
    const socket = new net.Socket({ fd: descriptor, readable: true, writable: false });
    socket.on('data', (data) => this.take(data));
    socket.on('error', leave);
  }

  begin(limit) {
    this.room = limit;
    this.hasEnded = false;
    const { held } = this;
    this.total -= held.length;
    this.held = Buffer.alloc(0);
    this.forward(held);
  }

  take(data) {
    if (this.hasEnded) return this.hold(data);
    data = Buffer.concat([this.rest, data]);
    const end = data.indexOf(cell.marker);
    if (end >= 0) {
      this.rest = Buffer.alloc(0);
      this.forward(data.subarray(0, end));
      this.hasEnded = true;
      this.written = this.total;
      this.total = 0;
      this.hold(data.subarray(end + cell.marker.length));
      return endCell();
    }
    // What may be the beginning of the marker waits.
    let start = data.indexOf(0, Math.max(0, data.length - cell.marker.length + 1));
    while (start >= 0 && !cell.marker.subarray(0, data.length - start).equals(data.subarray(start))) {
      start = data.indexOf(0, start + 1);
    }
    if (start < 0) start = data.length;
    this.rest = Buffer.from(data.subarray(start));
    this.forward(data.subarray(0, start));
  }

  hold(data) {
    this.total += data.length;
    const room = HELD - this.held.length;
    if (room > 0) this.held = Buffer.concat([this.held, data.subarray(0, room)]);
  }

  forward(data) {
    this.total += data.length;
    data = data.subarray(0, this.room);
    this.room -= data.length;
    for (let start = 0; start < data.length; start += PIECE) {
      send(this.kind, data.subarray(start, start + PIECE));
    }
  }

  // Ends a cell whose code closed the stream.
  abandon() {
    if (this.hasEnded) return;
    this.forward(this.rest);
    this.rest = Buffer.alloc(0);
    this.hasEnded = true;
    this.written = this.total;
    this.total = 0;
  }
}

const streams = [new Stream(5, 'o'), new Stream(6, 'e')];

function endCell() {
  if (!cell?.done || !streams.every((stream) => stream.hasEnded)) return;
  const [stdout, stderr] = streams.map((stream) => stream.written);
  sendMessage({ ...cell.done, stdout, stderr });
  cell = null;
}

function interrupt() {
  const interrupted = cell;
  if (!interrupted || interrupted.done) return;
  parentPort.postMessage({ kind: 'interrupt', cell: interrupted.number });
  setTimeout(() => {
    if (cell !== interrupted || interrupted.done) return;
    // It does not wait but runs.
    const session = new inspector.Session();
    session.connectToMainThread();
    session.post('Runtime.terminateExecution', () => {
      session.disconnect();
      parentPort.postMessage({ kind: 'interrupt', cell: interrupted.number });
    });
  }, ANSWER);
}

// Kills what the code started: descendants, and processes of a session that this one leads.
function killProcesses() {
  const parents = new Map();
  let all;
  try {
    all = fs.readdirSync('/proc');
  } catch {
    // Without it, most of those in the same group, by a signal that this process handles.
    return process.kill(0, 'SIGHUP');
  }
  for (const name of all) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const stat = fs.readFileSync(`/proc/${name}/stat`, 'latin1');
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      parents.set(Number(name), { parent: Number(fields[1]), session: Number(fields[3]) });
    } catch {
      // It has ended.
    }
  }
  const above = (pid) => {
    const seen = new Set();
    for (; parents.has(pid) && !seen.has(pid); pid = parents.get(pid).parent) seen.add(pid);
    return seen;
  };
  const own = above(process.pid);
  for (const [pid, its] of parents) {
    if (!own.has(pid) && (its.session === process.pid || above(pid).has(process.pid))) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // It has ended.
      }
    }
  }
}

parentPort.on('message', (message) => {
  if (message.kind === 'ready') {
    sendMessage({ type: 'ready', version: process.versions.node });
  } else if (message.kind === 'display') {
    if (cell && !cell.done) sendMessage(message.display);
  } else if (cell && message.kind === 'done') {
    cell.done = message.done;
    streams.forEach((stream, index) => {
      if (message.closed[index]) stream.abandon();
    });
    endCell();
  }
});

function handle(kind, payload) {
  if (kind === 'i') return interrupt();
  if (kind === 'k') return killProcesses();
  const request = JSON.parse(payload);
  const marker = `\0${crypto.randomBytes(16).toString('hex')}\n`;
  cell = { number: request.cell, marker: Buffer.from(marker), done: null };
  streams.forEach((stream, index) => stream.begin(request.limits[index]));
  parentPort.postMessage({ kind: 'run', request, marker });
}

const channel = new net.Socket({ fd: 3, readable: true, writable: false });
let received = Buffer.alloc(0);
channel.on('data', (data) => {
  received = Buffer.concat([received, data]);
  while (received.length >= HEAD) {
    const length = received.readUInt32BE(1);
    if (received.length < HEAD + length) return;
    const kind = String.fromCharCode(received[0]);
    const payload = received.subarray(HEAD, HEAD + length).toString();
    received = Buffer.from(received.subarray(HEAD + length));
    handle(kind, payload);
  }
});
channel.on('end', () => parentPort.postMessage({ kind: 'end' }));
channel.on('error', leave);
