// An owner's look at one node. Names and codes of nodes are the word of strangers: text only ever becomes a text node.
//
// The token is in this variable and nowhere else: it is gone when the page is.

import { arrow, idle, whyNot } from "./reasons.js";
import { current, switchLanguage, t } from "./words.js";

const EVERY_MS = 5_000;

const byId = (id) => document.getElementById(id);
let token = "";
let name = "";
let shown = null;
let timer = 0;
// Answers of an older question are not shown.
let question = 0;

function h(kind, attributes, ...children) {
  const made = document.createElement(kind);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return made;
}

// Whose the token is, by its own word; the scheduler decides whether that is true.
function subject(text) {
  try {
    const part = text.split(".")[1].replaceAll("-", "+").replaceAll("_", "/");
    const { sub } = JSON.parse(atob(part));
    return typeof sub === "string" ? sub : "";
  } catch {
    return "";
  }
}

function say(problem) {
  byId("problem").textContent = problem;
  byId("problem").hidden = problem === "";
}

async function ask() {
  clearTimeout(timer);
  question += 1;
  const mine = question;
  const headers = token === "" ? {} : { authorization: `Bearer ${token}` };
  let next = EVERY_MS;
  try {
    const answer = await fetch(`/v1/node/${encodeURIComponent(name)}`, { headers, cache: "no-store", credentials: "omit" });
    const body = await answer.json().catch(() => ({}));
    if (mine !== question) return;
    const why = body.detail || `HTTP ${answer.status}`;
    if (answer.ok) {
      shown = { node: body, at: new Date() };
      say("");
    } else if (answer.status === 401 || answer.status === 403) {
      shown = null;
      next = 0;
      say(t("problem.denied", { why }));
    } else {
      shown = answer.status === 404 ? null : shown;
      say(t(answer.status === 404 ? "problem.unknown" : "problem.other", { name, why }));
    }
  } catch (error) {
    if (mine !== question) return;
    say(t("problem.other", { why: error.message }));
  }
  draw();
  if (next > 0) timer = setTimeout(ask, next);
}

const card = (title, ...children) => h("section", { class: "card" }, h("h2", {}, title), children);
const list = (rows) => h("ul", {}, rows.map((row) => h("li", {}, row)));
const facts = (rows) => h("dl", {}, rows.map(([what, value]) => [h("dt", {}, what), h("dd", {}, String(value))]));
const joined = (values) => (values.length > 0 ? values.join(", ") : t("none"));

function headline(node) {
  const reasons = node.why_idle.map((sentence) => idle(sentence, current()));
  return h("section", { class: `card ${reasons.length > 0 || node.state !== "ready" ? "warn" : "good"}` },
    h("p", { class: "headline" }, t(`state.${node.state}`, { name: node.node_id })),
    reasons.length > 0 ? [h("h2", {}, t("idle")), list(reasons)] : h("p", {}, t("idle.none")));
}

function now(node) {
  const rows = [
    [t("slots"), t("slots.row", node.slots)], [t("running"), node.running], [t("done"), node.done], [t("failed"), node.failed],
    [t("order"), t(`order.${node.order}`)], [t("breaker"), t(`breaker.${node.breaker}`)],
  ];
  if (node.latency_ms !== undefined) rows.push([t("latency"), `${node.latency_ms} ms`]);
  if (node.missing_models.length > 0) rows.push([t("models"), joined(node.missing_models)]);
  if (node.last_error) rows.push([t("error"), node.last_error]);
  return card(t("facts"), facts(rows));
}

function useful(node) {
  const rows = node.useful_if.map(({ direction, tts, lacks }) =>
    t("useful.row", { direction: tts ? `${arrow(direction)} (${t("spoken")})` : arrow(direction), lacks: whyNot(lacks, current()) }));
  return card(t("useful"), rows.length > 0 ? list(rows) : h("p", {}, t("useful.none")));
}

function serves({ abilities }) {
  const rows = [
    [t("asr"), joined(abilities.asr_langs)], [t("semantic"), joined(abilities.semantic_langs)],
    [t("nmt"), joined(abilities.nmt)], [t("tts"), joined(abilities.tts_langs)],
  ];
  return card(t("serves"), facts(rows), abilities.private ? h("p", { class: "note" }, t("private")) : null);
}

function failures(node) {
  const rows = node.failures.map(({ at_ms: at, code, job_id: job }) =>
    t("failure", { time: new Date(at).toLocaleTimeString(current()), code, job }));
  return card(t("failures"), rows.length > 0 ? list(rows) : h("p", {}, t("failures.none")));
}

function draw() {
  document.documentElement.lang = current();
  for (const [id, key] of [["title", "title"], ["lang", "other"], ["how", "how"], ["token-label", "token"], ["name-label", "name"], ["go", "go"], ["kept", "kept"]]) {
    byId(id).textContent = t(key);
  }
  if (shown === null) return byId("node").replaceChildren();
  const { node, at } = shown;
  const asked = h("p", { class: "note" }, t("asked", { time: at.toLocaleTimeString(current()) }));
  byId("node").replaceChildren(headline(node), now(node), useful(node), serves(node), failures(node), asked);
}

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value.trim();
  name = byId("name").value.trim() || subject(token);
  shown = null;
  if (name === "") {
    clearTimeout(timer);
    question += 1;
    say(t("problem.name"));
    return draw();
  }
  ask();
});
byId("lang").addEventListener("click", () => {
  switchLanguage();
  draw();
});
draw();
