// The page: what is known, what is shown, and the line to the scheduler.

import { byId, fill, h } from "./dom.js";
import { headline, overview } from "./overview.js";
import { momentAt, nearest } from "./charts.js";
import * as line from "./line.js";
import * as nodes from "./nodes.js";
import * as jobs from "./jobs.js";
import * as rest from "./rest.js";
import * as sessions from "./sessions.js";
import * as usage from "./usage.js";
import { clock, denial, language, setLanguage, t } from "./words.js";

const HISTORY = 360;
const SILENCE_MS = 25000;
const MINUTE_MS = 60000;
const VIEWS = ["", "nodes", "jobs", "sessions", "usage", "instances", "explain"];

const state = {
  stats: null, points: [], heard: 0, connected: false, lock: null, boot: null, view: "", latencyOf: "job", chart: { range: 30 * MINUTE_MS, probe: null }, day: { points: [], read: 0 },
  nodes: { data: null, error: null, filter: "", sort: { by: "id", down: false }, limit: 100 },
  node: {}, job: {}, jobs: { filter: {} }, session: {}, sessions: { filter: {}, limit: 50 }, explain: { form: { src: "en", tgt: "zh", node: "", tts: true } },
  usage: { days: 7, read: 0, by: Object.fromEntries(usage.BY.map((by) => [by, {}])) }, catalogue: { read: 0 },
};

// Kept between visits; a browser that keeps nothing is served all the same.
const kept = {
  get(name) { try { return localStorage.getItem(`lingua.${name}`); } catch { return null; } },
  set(name, value) { try { localStorage.setItem(`lingua.${name}`, value); } catch { /* not kept */ } },
};

async function read(path, options) {
  try {
    return await line.read(path, options);
  } catch (error) {
    if (error.denied) lock(error);
    throw error;
  }
}

// ---- the line

let following = null;
let pause = 1000;

async function follow() {
  following?.abort();
  const mine = new AbortController();
  following = mine;
  while (!mine.signal.aborted) {
    try {
      await line.events(mine.signal, unlock, hear);
    } catch (error) {
      if (error.denied && !mine.signal.aborted) return lock(error);
    }
    if (mine.signal.aborted) return;
    lose();
    pause = Math.min(pause * 1.5, 5000);
    await new Promise((resolve) => setTimeout(resolve, pause * (0.7 + Math.random() * 0.6)));
  }
}

// Nothing is asked until there is a token, or another one. What is shown stays.
function lock(error) {
  following?.abort();
  state.lock = { why: error.message, wrong: error.shown };
  state.connected = false;
  draw();
  const field = byId("lock-token");
  field.value = "";
  // Whoever is busy elsewhere on the page is told, and not taken away from there.
  if ([document.body, byId("lock-go")].includes(document.activeElement)) field.focus();
}

function unlock() {
  if (!state.lock) return;
  const here = byId("lock").contains(document.activeElement);
  state.lock = null;
  byId("lock-token").value = "";
  draw();
  if (here) byId("main").focus();
}

function showToken() {
  if (!line.showToken(byId("lock-token").value.trim())) return lock({ message: "it is no token", shown: true });
  state.lock = { checking: true };
  draw();
  follow();
}

async function hear(stats) {
  const back = !state.connected && state.stats !== null;
  state.stats = stats;
  state.heard = Date.now();
  state.connected = true;
  pause = 1000;
  const snapshot = stats.snapshot;
  const me = snapshot?.instances.find((one) => one.id === stats.instance) ?? snapshot?.instances[0];
  const restarted = me && state.boot && me.boot !== state.boot;
  if (me) state.boot = me.boot;
  if (restarted) say(t("restarted"));
  else if (back) say(t("again"));
  if (snapshot && state.points.at(-1)?.at_ms !== snapshot.at_ms) keep(snapshot);
  if (back || state.points.length <= 1) await past();
  draw();
  if (!document.hidden) refresh();
}

function lose() {
  if (state.lock) state.lock.silent = true;
  if (!state.connected && state.stats) return draw();
  state.connected = false;
  draw();
}

function keep(snapshot) {
  const { work, latency } = snapshot;
  state.points.push({
    at_ms: snapshot.at_ms, ended_per_s: work.ended_per_s, ended: work.ended, latency,
    waiting: work.waiting, sessions: work.sessions, slots: snapshot.nodes.slots, used: snapshot.nodes.used,
  });
  state.points.splice(0, state.points.length - HISTORY);
}

// What was before this page was opened, or while it was cut off.
async function past() {
  try {
    const { points } = await read("/api/v1/history");
    const all = new Map([...state.points, ...points].map((point) => [point.at_ms, point]));
    state.points = [...all.values()].sort((a, b) => a.at_ms - b.at_ms).slice(-HISTORY);
  } catch { /* the next snapshot begins it */ }
}

// A day by the minute; there is nothing new more often.
async function readDay() {
  if (state.chart.range <= 30 * MINUTE_MS || Date.now() - state.day.read < MINUTE_MS / 2) return;
  state.day.read = Date.now();
  try {
    state.day.points = (await read("/api/v1/history?by=minute")).points;
    draw();
  } catch { state.day.read = 0; }
}

// What is used and the catalogue change slowly.
function readUsage() {
  if (Date.now() - state.usage.read < MINUTE_MS / 4) return;
  state.usage.read = Date.now();
  const day = (ms) => new Date(ms).toISOString().slice(0, 10);
  const now = state.stats?.now_ms ?? Date.now();
  const wanted = { from: day(now - (state.usage.days - 1) * 24 * 60 * MINUTE_MS), to: day(now) };
  for (const by of usage.BY) load(state.usage.by[by], `/api/v1/usage?${new URLSearchParams({ by, ...wanted })}`);
}

function readCatalogue() {
  if (Date.now() - state.catalogue.read < MINUTE_MS / 4) return;
  state.catalogue.read = Date.now();
  load(state.catalogue, "/api/v1/catalogue");
}

// ---- what is shown

function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, id] = path.split("/");
  state.view = VIEWS.includes(view) ? view : "";
  state.id = id ? decodeURIComponent(id) : null;
  const wanted = Object.fromEntries(new URLSearchParams(query ?? ""));
  if (state.view === "explain" && query) {
    const asked = new URLSearchParams(query);
    for (const name of ["src", "tgt", "node"]) state.explain.form[name] = asked.get(name) ?? "";
    state.explain.form.tts = asked.get("tts") !== "false";
    ask();
  }
  const { view: shown, id: one } = state;
  if (shown === "nodes" && one && state.node.id !== one) state.node = { id: one, history: { read: 0 }, chart: { range: 60 * MINUTE_MS, probe: null } };
  if (shown === "jobs" && one && state.job.id !== one) state.job = { id: one };
  if (shown === "jobs" && !one) state.jobs = { filter: wanted };
  if (shown === "sessions" && one && state.session.id !== one) state.session = { id: one, tenant: wanted.tenant, jobs: {} };
  if (shown === "sessions" && !one) state.sessions = { filter: wanted, limit: 50 };
  draw();
  refresh();
}

async function load(slot, path) {
  try {
    slot.data = await read(path);
    slot.error = null;
  } catch (error) {
    slot.error = error.code === "NOT_FOUND" ? "NOT_FOUND" : error.message;
    if (error.code === "NOT_FOUND") slot.data = null;
  }
  draw();
}

function refresh() {
  if (state.lock) return;
  const id = state.id && encodeURIComponent(state.id);
  const asked = (path, wanted) => `${path}?${new URLSearchParams(Object.entries(wanted).filter(([, value]) => value))}`;
  if (state.view === "") { readDay(); readCatalogue(); }
  else if (state.view === "usage") readUsage();
  else if (state.view === "nodes" && id) {
    load(state.node, `/api/v1/nodes/${id}`);
    // The minute that has begun changes; what was before does not.
    if (Date.now() - state.node.history.read > MINUTE_MS / 4) {
      state.node.history.read = Date.now();
      load(state.node.history, `/api/v1/nodes/${id}/history`);
    }
  } else if (state.view === "nodes") load(state.nodes, `/api/v1/nodes?limit=${state.nodes.limit}`);
  else if (state.view === "jobs" && id) load(state.job, `/api/v1/jobs/${id}`);
  else if (state.view === "jobs") load(state.jobs, asked("/api/v1/jobs", { limit: 50, ...state.jobs.filter }));
  else if (state.view === "sessions" && id) {
    const { tenant } = state.session;
    load(state.session, asked(`/api/v1/sessions/${id}`, { tenant }));
    load(state.session.jobs, asked("/api/v1/jobs", { session: state.id, tenant, limit: 50 }));
  } else if (state.view === "sessions") load(state.sessions, asked("/api/v1/sessions", { limit: state.sessions.limit, ...state.sessions.filter }));
}

async function ask() {
  const { form } = state.explain;
  const asked = new URLSearchParams({ src: form.src, tgt: form.tgt, tts: form.tts });
  if (form.node) asked.set("node", form.node);
  try {
    state.explain.data = await read(`/api/v1/explain?${asked}`);
    state.explain.error = null;
  } catch (error) {
    state.explain.error = error.message;
  }
  draw();
}

function body() {
  if (state.view === "nodes") return state.id ? nodes.one(state) : nodes.list(state);
  if (state.view === "jobs") return state.id ? jobs.one(state) : jobs.list(state);
  if (state.view === "sessions") return state.id ? sessions.one(state) : sessions.list(state);
  if (state.view === "usage") return usage.view(state);
  if (state.view === "instances") return rest.instances(state);
  if (state.view === "explain") return rest.explain(state);
  return overview(state);
}

function draw() {
  fill(byId("nav"), [h("ul", {}, VIEWS.map((view) => h("li", { "data-key": view },
    h("a", { href: `#/${view}`, "aria-current": state.view === view ? "page" : null }, t(`nav.${view}`)))))]);
  byId("nav").setAttribute("aria-label", t("nav.label"));
  byId("skip").textContent = t("skip");
  fill(byId("tools"), tools());
  fill(byId("headline"), headline(state));
  fill(byId("main"), body());
  const snapshot = state.stats?.snapshot;
  byId("foot").textContent = snapshot
    ? t("foot", { s: snapshot.interval_ms / 1000, leader: snapshot.leader, store: state.stats.store }) : "";
  document.title = title();
  drawLock();
  const banner = byId("banner");
  const lost = isLost() && (!state.lock || state.lock.silent);
  const said = state.stats ? t("banner.lost", { time: clock(state.heard) }) : t("banner.never");
  if (banner.hidden === Boolean(lost)) banner.hidden = !lost;
  if (lost && banner.textContent !== said) banner.textContent = said;
  document.body.classList.toggle("lost", Boolean(isLost() && state.stats));
  age();
}

function drawLock() {
  const { lock } = state;
  byId("lock").hidden = !lock;
  // Before the first figures there is nothing to show behind it.
  for (const part of ["headline", "main"]) byId(part).hidden = Boolean(lock && !state.stats);
  if (!lock) return;
  for (const part of ["title", "label", "how", "kept"]) byId(`lock-${part}`).textContent = t(`token.${part}`);
  byId("lock-go").textContent = t(lock.checking ? "token.checking" : "token.go");
  const said = lock.why ? denial(lock.why) : "";
  const why = byId("lock-why");
  if (why.textContent !== said) why.textContent = said;
  why.classList.toggle("problem", Boolean(lock.wrong));
  byId("lock-token").setAttribute("aria-invalid", String(Boolean(lock.wrong)));
}

// A moment of patience at the beginning.
const isLost = () => Boolean(!state.connected && (state.stats || performance.now() > 3000));

function title() {
  const mark = { ok: "✓ ", warning: "! ", critical: "✕ " }[state.connected && state.stats?.health] || "";
  return `${mark}Lingua Scheduler`;
}

function tools() {
  const theme = document.documentElement.dataset.theme;
  const pick = (group, value, chosen, label, spoken) => h("button", {
    type: "button", "data-do": group, "data-value": value, "aria-pressed": String(chosen), "aria-label": spoken, "data-key": value,
  }, label);
  return [
    h("span", { id: "live", class: `live ${state.connected ? "on" : isLost() ? "off" : "wait"}`, "data-key": "live" },
      h("span", { class: "pulse", "aria-hidden": "true" }),
      h("span", {}, t(state.connected ? "live" : state.lock ? "locked" : isLost() ? "lost" : "wait")), " ", h("span", { id: "age", class: "num" })),
    h("div", { class: "choice", role: "group", "aria-label": t("lang"), "data-key": "lang" },
      pick("lang", "en", language() === "en", "EN", "English"), pick("lang", "zh", language() === "zh", "中文", "中文")),
    h("div", { class: "choice", role: "group", "aria-label": t("theme"), "data-key": "theme" },
      [["auto", "◐"], ["light", "☀"], ["dark", "☾"]].map(([name, sign]) => pick("theme", name, theme === name, sign, t(`theme.${name}`)))),
    line.hasToken() && !state.lock && h("button", { type: "button", "data-do": "forget", "data-key": "forget" }, t("token.forget")),
  ];
}

function age() {
  const seconds = Math.round((Date.now() - state.heard) / 1000);
  const shown = byId("age");
  if (shown) shown.textContent = state.stats ? t("age", { n: seconds }) : "";
}

let toasting = 0;
function say(text) {
  const toast = byId("toast");
  fill(toast, [h("span", {}, text)]);
  toast.classList.add("shown");
  clearTimeout(toasting);
  toasting = setTimeout(() => toast.classList.remove("shown"), 8000);
}

// ---- what is done

function confirmed(what, id) {
  const dialog = byId("ask");
  byId("ask-title").textContent = t(`ask.${what}`, { id });
  byId("ask-text").textContent = t(`ask.${what}.text`);
  byId("ask-no").textContent = t("cancel");
  byId("ask-yes").textContent = t(`do.${what}`);
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

async function order(what, id, path) {
  if (!(await confirmed(what, id))) return;
  try {
    const told = await read(path, { method: "POST" });
    say(t(`did.${what}`, { id, state: told.state && t(`job.state.${told.state.toLowerCase()}`) }));
  } catch (error) {
    say(t("didnt", { why: error.message }));
  }
  refresh();
}

const orderNode = (what, id) => order(what, id, `/api/v1/nodes/${encodeURIComponent(id)}/${what}`);

const ACTS = {
  lang(of) { setLanguage(of.value); kept.set("lang", language()); draw(); },
  theme(of) { document.documentElement.dataset.theme = of.value; kept.set("theme", of.value); draw(); },
  latency(of) { state.latencyOf = of.of; draw(); },
  range(of) { state.chart = { range: Number(of.minutes) * MINUTE_MS, probe: null }; draw(); readDay(); },
  nodeRange(of) { state.node.chart = { range: Number(of.minutes) * MINUTE_MS, probe: null }; draw(); },
  usageRange(of) { state.usage.days = Number(of.days); state.usage.read = 0; readUsage(); draw(); },
  sort(of) {
    const { sort } = state.nodes;
    state.nodes.sort = { by: of.by, down: sort.by === of.by && !sort.down };
    draw();
  },
  more() {
    const list = state.view === "sessions" ? state.sessions : state.nodes;
    list.limit = Math.min(1000, list.limit + 200);
    refresh();
  },
  retry() { refresh(); },
  // All that was read with it goes too.
  forget() { location.reload(); },
  drain: (of) => orderNode("drain", of.nodeId),
  resume: (of) => orderNode("resume", of.nodeId),
  block: (of) => orderNode("block", of.nodeId),
  cancelJob: (of) => order("cancel_job", of.jobId, `/api/v1/jobs/${encodeURIComponent(of.jobId)}/cancel`),
  disconnect: (of) => order("disconnect", of.sessionId, `/api/v1/sessions/${encodeURIComponent(of.sessionId)}/disconnect?tenant=${encodeURIComponent(of.tenant)}`),
};

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-do]");
  if (button) ACTS[button.dataset.do]?.(button.dataset);
});

// A pointer over a chart, or the arrow keys within it, read the values of one moment in all charts.
const chartOf = (event) => event.target.closest?.(".chart");

// The charts of a page read one moment together: those of the overview, or those of a node.
const chart = () => (state.view === "nodes" ? state.node.chart : state.chart);

function charted() {
  if (state.view === "nodes") return state.node.history?.data?.points ?? [];
  return state.chart.range > 30 * MINUTE_MS ? state.day.points : state.points;
}

function probe(at_ms) {
  if (!chart() || chart().probe === at_ms) return;
  chart().probe = at_ms;
  draw();
}

function step(key) {
  const all = charted();
  if (all.length === 0) return null;
  const points = all.filter((point) => point.at_ms >= all.at(-1).at_ms - chart().range);
  const now = points.findIndex((point) => point.at_ms === chart().probe);
  const from = now < 0 ? points.length : now;
  const to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: points.length - 1 }[key];
  return points[Math.max(0, Math.min(points.length - 1, to))]?.at_ms ?? null;
}

document.addEventListener("pointermove", (event) => {
  const svg = chartOf(event);
  if (svg) probe(nearest(charted(), momentAt(svg, event.clientX))?.at_ms ?? null);
  else if (!document.activeElement?.matches(".chart")) probe(null);
});
document.addEventListener("keydown", (event) => {
  if (!chartOf(event)) return;
  if (event.key === "Escape") probe(null);
  if (!["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) return;
  event.preventDefault();
  probe(step(event.key));
});
document.addEventListener("focusout", (event) => { if (chartOf(event)) probe(null); });
document.addEventListener("input", (event) => {
  if (event.target.dataset.input === "filter") {
    state.nodes.filter = event.target.value;
    draw();
  }
});
document.addEventListener("change", (event) => { if (event.target.id === "by-state") event.target.form.requestSubmit(); });
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.id === "lock-form") {
    event.preventDefault();
    showToken();
  } else if (form.dataset.form === "explain") {
    event.preventDefault();
    const said = new FormData(form);
    const asked = { src: said.get("src").trim(), tgt: said.get("tgt").trim(), node: said.get("node").trim(), tts: said.has("tts") };
    const wanted = `#/explain?${new URLSearchParams(asked)}`;
    if (location.hash === wanted) { state.explain.form = asked; ask(); } else location.hash = wanted;
  } else if (form.dataset.form === "jobs") {
    event.preventDefault();
    const said = [...new FormData(form)].map(([name, value]) => [name, value.trim()]).filter(([, value]) => value);
    location.hash = `#/jobs?${new URLSearchParams(said)}`;
  } else if (form.dataset.form === "job") {
    event.preventDefault();
    location.hash = `#/jobs/${encodeURIComponent(new FormData(form).get("job").trim())}`;
  }
});
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});
window.addEventListener("hashchange", route);
// A page that the browser keeps for the way back keeps no connection: there are six for all pages of a site.
window.addEventListener("pagehide", () => following?.abort());
window.addEventListener("pageshow", (event) => { if (event.persisted && !state.lock) follow(); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
setInterval(() => {
  age();
  // A line that is dead without a word is given up.
  if (state.connected && Date.now() - state.heard > SILENCE_MS) { lose(); follow(); }
}, 1000);
setTimeout(draw, 3100);

setLanguage(kept.get("lang") ?? (navigator.language.startsWith("zh") ? "zh" : "en"));
document.documentElement.dataset.theme = kept.get("theme") ?? "auto";
route();
follow();
