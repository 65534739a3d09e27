// What was said, newest first, with times.

import { nameOf, textDirection } from "./languages.js";
import { clock, span, t } from "./words.js";

const MAX = 200;

function text(name, className, content, lang) {
  const node = document.createElement(name);
  node.className = className;
  node.textContent = content;
  if (lang) {
    node.lang = lang;
    node.dir = textDirection(lang);
  }
  return node;
}

export class Past {
  entries = [];

  constructor(list, empty, clear, replay) {
    Object.assign(this, { list, empty, clearButton: clear, replay });
  }

  add(result) {
    const entry = { at: Date.now(), result, playedS: null, peak: 0 };
    this.entries.unshift(entry);
    this.entries.length = Math.min(this.entries.length, MAX);
    this.draw();
    return entry;
  }

  played(result, seconds, peak) {
    const entry = this.entries.find((one) => one.result === result);
    if (!entry) return;
    entry.playedS = Math.max(entry.playedS ?? 0, seconds);
    entry.peak = Math.max(entry.peak, peak);
    this.draw();
  }

  clear() {
    this.entries = [];
    this.draw();
  }

  draw() {
    this.empty.hidden = this.entries.length > 0;
    this.clearButton.hidden = this.entries.length === 0;
    this.list.replaceChildren(...this.entries.map((entry) => this.row(entry)));
  }

  row({ at, result, playedS, peak }) {
    const { src, tgt } = result.direction;
    const row = document.createElement("li");
    Object.assign(row.dataset, { turn: result.turn ?? "", index: result.index, src, tgt });
    if (playedS !== null) Object.assign(row.dataset, { playedS: playedS.toFixed(2), peak: peak.toFixed(3) });
    const head = document.createElement("div");
    head.className = "meta";
    const time = text("time", "", clock(at));
    time.dateTime = new Date(at).toISOString();
    head.append(time, text("span", "way", `${nameOf(src)} → ${nameOf(tgt)}`));
    if (result.latencyMs !== null) {
      const took = text("span", "took", t("past.took", { time: span(result.latencyMs) }));
      took.title = t("past.took.note");
      row.dataset.latencyMs = Math.round(result.latencyMs);
      head.append(took);
    }
    if (result.audio?.length > 0) {
      const again = text("button", "again", "▶");
      again.type = "button";
      again.title = t("past.replay");
      again.setAttribute("aria-label", `${t("past.replay")}: ${result.text}`);
      again.addEventListener("click", () => this.replay(result));
      head.append(again);
    }
    row.append(head);
    if (result.heard) row.append(text("p", "heard", result.heard, src));
    if (result.text) row.append(text("p", "meant", result.text, tgt));
    if (result.trouble) row.append(text("p", "trouble", result.trouble()));
    return row;
  }
}
