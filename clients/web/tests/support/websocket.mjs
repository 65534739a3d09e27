// The least of a WebSocket client, for versions of Node.js that have none of their own. Only for tests.

import { createHash, randomBytes } from "node:crypto";
import { connect } from "node:net";

const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

export class TestSocket {
  onopen = null; onmessage = null; onclose = null; onerror = null;
  binaryType = "arraybuffer";
  #socket;
  #received = Buffer.alloc(0);
  #isOpen = false;
  #over = false;
  #close = { code: 1006, reason: "" };

  constructor(url) {
    const { hostname, port, pathname } = new URL(url);
    const key = randomBytes(16).toString("base64");
    this.accept = createHash("sha1").update(key + GUID).digest("base64");
    this.#socket = connect(Number(port), hostname, () => {
      this.#socket.write(`GET ${pathname} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: ${key}\r\nSec-WebSocket-Version: 13\r\n\r\n`);
    });
    this.#socket.setNoDelay(true);
    this.#socket.on("data", (data) => {
      this.#received = Buffer.concat([this.#received, data]);
      if (this.#isOpen || this.#opens()) this.#read();
    });
    this.#socket.on("error", () => this.onerror?.({}));
    this.#socket.on("close", () => this.#end());
  }

  get bufferedAmount() { return this.#socket.writableLength; }

  send(data) {
    const isText = typeof data === "string";
    this.#write(isText ? 1 : 2, isText ? Buffer.from(data) : Buffer.from(data));
  }

  close(code = 1000) {
    if (!this.#isOpen) return this.#socket.destroy();
    const payload = Buffer.alloc(2);
    payload.writeUInt16BE(code);
    this.#write(8, payload);
    this.#socket.end();
  }

  #opens() {
    const end = this.#received.indexOf("\r\n\r\n");
    if (end < 0) return false;
    const head = this.#received.subarray(0, end).toString();
    if (!head.startsWith("HTTP/1.1 101") || !head.includes(this.accept)) {
      this.#socket.destroy();
      return false;
    }
    this.#received = this.#received.subarray(end + 4);
    this.#isOpen = true;
    this.onopen?.({});
    return true;
  }

  #read() {
    for (;;) {
      const data = this.#received;
      if (data.length < 2) return;
      let [length, at] = [data[1] & 127, 2];
      if (length === 126) [length, at] = data.length < 4 ? [Infinity, 4] : [data.readUInt16BE(2), 4];
      else if (length === 127) [length, at] = data.length < 10 ? [Infinity, 10] : [Number(data.readBigUInt64BE(2)), 10];
      if (data.length < at + length) return;
      const payload = data.subarray(at, at + length);
      this.#received = data.subarray(at + length);
      this.#frame(data[0] & 15, payload);
    }
  }

  #frame(kind, payload) {
    if (kind === 1) this.onmessage?.({ data: payload.toString() });
    if (kind === 9) this.#write(10, payload);
    if (kind !== 8) return;
    this.#close = { code: payload.length >= 2 ? payload.readUInt16BE(0) : 1005, reason: payload.subarray(2).toString() };
    this.#write(8, payload.subarray(0, 2));
    this.#socket.end();
  }

  #write(kind, payload) {
    if (this.#socket.destroyed) return;
    const head = payload.length < 126 ? Buffer.from([128 | kind, 128 | payload.length]) : Buffer.alloc(payload.length < 65_536 ? 4 : 10);
    if (head.length === 4) {
      head.set([128 | kind, 128 | 126]);
      head.writeUInt16BE(payload.length, 2);
    } else if (head.length === 10) {
      head.set([128 | kind, 128 | 127]);
      head.writeBigUInt64BE(BigInt(payload.length), 2);
    }
    const mask = randomBytes(4);
    this.#socket.write(Buffer.concat([head, mask, payload.map((byte, i) => byte ^ mask[i & 3])]));
  }

  #end() {
    if (this.#over) return;
    this.#over = true;
    this.onclose?.(this.#close);
  }
}
