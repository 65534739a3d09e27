// The line to the scheduler: the token, calls, and the stream of news.
//
// The token is in this variable and nowhere else. Browsers write what pages keep to the disk, even
// for one tab, to bring tabs back; a token that opens everything is not to lie there. So it is gone
// when the page is, and a reload asks again.

let token = null;

// Longer than any picture of the whole: a stream that has no end of an event is given up.
const MAX_EVENT = 64 << 20;

export const hasToken = () => token !== null;

// Says whether it can be one at all.
export function showToken(text) {
  if (!/^[\x21-\x7e]{1,4096}$/.test(text)) return false;
  token = text;
  return true;
}

// A viewer's token changes nothing, so no button is offered. What may be done is decided by the scheduler.
export function mayChange() {
  try {
    const claims = atob(token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/"));
    return JSON.parse(claims).role !== "viewer";
  } catch {
    return true;
  }
}

// Whoever answered it wants a token, or another one than that which was shown. Orders that are
// refused for other reasons are no matter of tokens.
const isDenied = (status, method, shown) => status === 401 || (status === 403 && shown !== null && method === "GET");

async function call(path, accept, options) {
  const shown = token;
  const headers = shown === null ? { accept } : { accept, authorization: `Bearer ${shown}` };
  const answer = await fetch(path, { cache: "no-store", credentials: "omit", ...options, headers });
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => ({}));
  // One that came too late says nothing of the token that is shown now.
  const denied = isDenied(answer.status, options?.method ?? "GET", shown) && shown === token;
  throw Object.assign(new Error(body.detail || `HTTP ${answer.status}`), { code: body.error, denied, shown: shown !== null });
}

export async function read(path, options) {
  const answer = await call(path, "application/json", options);
  return answer.json().catch(() => ({}));
}

// Calls `open` when the stream is there and `hear` with every `stats`, until it ends. An EventSource
// could not show a token.
export async function events(signal, open, hear) {
  const answer = await call("/api/v1/events", "text/event-stream", { signal });
  open();
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    if (rest.length > MAX_EVENT) throw new Error("an event without end");
    for (const part of parts) {
      const event = new Map(part.split("\n").map((row) => {
        const [name, ...text] = row.split(": ");
        return [name, text.join(": ")];
      }));
      if (event.get("event") === "stats") hear(JSON.parse(event.get("data")));
    }
  }
}
