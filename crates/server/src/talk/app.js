// The page: two sides, one conversation with the scheduler.

import { pairName, Served } from "./languages.js";
import { bestCodec, Microphone, MicrophoneError, Playback, Session, Talker } from "./lingua/index.js";
import { Past } from "./past.js";
import { Side } from "./sides.js";
import { has, language, setLanguage, t, translate } from "./words.js";

const LOOK_MS = 15000;
const byId = (id) => document.getElementById(id);

// Kept between visits; a browser that keeps nothing is served all the same. Never a token.
const kept = {
  get(name) { try { return localStorage.getItem(`lingua.${name}`); } catch { return null; } },
  set(name, value) { try { localStorage.setItem(`lingua.${name}`, value); } catch { /* not kept */ } },
};

const served = new Served();
const microphone = new Microphone();
const playback = new Playback();
const past = new Past(byId("past"), byId("past-empty"), byId("clear"), (result) => speak(result));
const on = { choose, start, stop, letGo, type };
const sides = { a: new Side("a", on), b: new Side("b", on) };

let codec = "pcm16";
let session = null;
let talker = null;
// In memory only: a token is not to lie on a disk.
let token = null;
// Why one is asked for.
let lock = null;
let change = { state: "idle", why: "" };
let auto = { on: false, side: "a" };
// The side whose button is down while the microphone is being asked for.
let pressed = null;

// Who opens the page on the scheduler's own machine can start and make things there; nobody else is told to.
const isOperator = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);

const other = (side) => (side === sides.a ? sides.b : sides.a);
const directionOf = (side) => ({ src: side.language, tgt: other(side).language });

// Who has said a turn, whatever the languages are by now.
const speakers = new Map();
const sideOf = ({ turn, direction }) =>
  speakers.get(turn) ?? speakers.get(direction) ?? (direction.src === sides.b.language && direction.tgt === sides.a.language ? sides.b : sides.a);

function remember(what, side) {
  speakers.set(what, side);
  if (speakers.size > 100) speakers.delete(speakers.keys().next().value);
}

// ---- the conversation

function converse() {
  session = new Session({
    url: location.origin, direction: directionOf(sides.a), codec, partials: true, maxUtteranceMs: 20000, platform: "talk",
    ...(token !== null && { token }),
  });
  talker?.close();
  speakers.clear();
  talker = new Talker(session, microphone, { codec });
  session.on("state", onState);
  session.on("opened", ({ again, resumed, recovered, resent }) => {
    if (again) say(resumed && recovered ? t("again") : resent > 0 || !resumed ? t("again.new") : t("again"));
    look();
  });
  session.on("partial", (partial) => sideOf(partial).own(partial.text, false));
  session.on("result", onResult);
  session.on("missing", onMissing);
  session.on("dropped", ({ reason }) => say(t(`dropped.${reason}`)));
  session.on("backpressure", ({ source, action }) => source === "socket" && action === "PAUSE" && say(t("busy")));
  talker.on("speech", (spoken) => sideOf(spoken).do("listening"));
  talker.on("level", ({ levelDb }) => talker.talking && sideOf({ direction: talker.talking }).level(Math.max(0, Math.min(1, (levelDb + 55) / 45))));
  talker.on("ended", onEnded);
  talker.on("failed", (error) => say(t("mic.failed", { why: error.message })));
  session.open();
}

function onState(now) {
  change = now;
  if (now.state === "locked") ask(token === null ? "token.needed" : /expired/.test(now.why) ? "token.expired" : "token.wrong");
  if (now.state === "closed" && now.code === "FORBIDDEN" && token !== null) ask("token.role");
  if (now.state === "open") lock = null;
  draw();
}

function onResult(result) {
  const from = sideOf(result);
  from.own(result.heard, true);
  other(from).translation(result.text);
  if (from.doing === "translating") from.do("idle");
  past.add(result);
  if (!speak(result)) passOn();
}

function onMissing(missing) {
  const from = sideOf(missing);
  const key = `missing.${missing.reason}`;
  const words = (say) => (has(key) ? say(key, { pair: pairName(missing.direction) }) : say("missing.other", { why: missing.reason }));
  from.own("", true);
  from.trouble(words((...said) => from.t(...said)));
  if (from.doing === "translating") from.do("idle");
  past.add({ ...missing, heard: "", text: "", audio: null, trouble: () => words(t) });
  if (missing.reason === "no_capable_node") look();
  passOn();
}

// ---- speaking

async function start(side, endsBy) {
  pressed = { side, endsBy };
  playback.stop();
  try {
    await Promise.all([playback.unlock(), microphone.open()]);
  } catch (error) {
    return refuse(side, error);
  }
  if (pressed?.side !== side) return;
  hush();
  const asked = pressed.endsBy;
  if (auto.on) auto.side = side.name;
  side.trouble("");
  side.own("", true);
  const direction = directionOf(side);
  remember(direction, side);
  talker.start(direction, auto.on ? "silence" : asked);
  side.do(asked === "release" && !auto.on ? "listening" : "waiting");
}

// A tap: what follows ends by silence.
function letGo(side) {
  if (pressed?.side === side) pressed.endsBy = "silence";
  talker.letGo();
}

function stop(side) {
  if (pressed?.side === side) pressed = null;
  if (auto.on) toggleAuto(false);
  talker.stop();
}

// In place of speech. False: it was not sent.
function type(side, text) {
  side.trouble("");
  if (!session.type(text, directionOf(side))) {
    side.trouble(side.t("type.lost"));
    return false;
  }
  side.own(text, true);
  if (side.doing === "idle") side.do("translating");
  return true;
}

function onEnded({ direction, turn, by }) {
  const side = sideOf({ direction });
  if (turn !== null) remember(turn, side);
  // Another turn of this side may have begun meanwhile.
  if (talker.talking && sideOf({ direction: talker.talking }) === side) return;
  side.do(turn === null ? "idle" : "translating");
  if (turn !== null) return;
  if (auto.on) return start(sides[auto.side], "silence");
  if (by === "nothing") side.trouble(side.t("mic.none"));
}

// The other one listens and need not see that the first one does.
function hush() {
  for (const side of Object.values(sides)) if (side.isOn) side.do("idle");
}

function refuse(side, error) {
  pressed = null;
  if (auto.on) toggleAuto(false);
  const kind = error instanceof MicrophoneError ? error.trouble : "failed";
  side.do("idle");
  side.trouble(side.t(`mic.${kind}`, { why: error.message }));
}

microphone.on("ended", (error) => {
  const side = talker.talking ? sideOf({ direction: talker.talking }) : sides.a;
  talker.stop();
  refuse(side, error);
});

// Who has been heard passes the turn on.
function passOn() {
  if (!auto.on || playback.isPlaying || talker.talking) return;
  const next = other(sides[auto.side]);
  auto.side = next.name;
  start(next, "silence");
}

function toggleAuto(wanted) {
  auto.on = wanted;
  document.querySelector("[data-do=auto]").setAttribute("aria-pressed", String(wanted));
  if (wanted) start(sides[auto.side], "silence");
  else talker.stop();
}

// ---- hearing

function speak(result) {
  if (!result.audio?.length) return false;
  return playback.play(result);
}

playback.on("started", ({ item }) => {
  session.ttsStarted(item);
  other(sideOf(item)).do("playing");
});
playback.on("ended", ({ item, seconds, peak }) => {
  quiet(item);
  past.played(item, seconds, peak);
  passOn();
});
playback.on("failed", ({ item, error }) => {
  quiet(item);
  say(t("sound.failed", { why: error.message }));
  passOn();
});

function quiet(item) {
  session.ttsEnded(item);
  const listener = other(sideOf(item));
  if (listener.doing === "playing") listener.do("idle");
}

// ---- languages

async function look() {
  const headers = token === null ? {} : { authorization: `Bearer ${token}` };
  try {
    const answer = await fetch("/v1/languages", { cache: "no-store", credentials: "omit", headers });
    if (answer.status === 401 || answer.status === 403) {
      if (token === null) ask("token.needed");
      return;
    }
    if (!answer.ok) return;
    served.pairs = (await answer.json()).pairs;
    begin();
    for (const side of Object.values(sides)) side.fill(served);
    draw();
  } catch { /* the connection says so itself */ }
}

// The first time, with two languages that are served, unless somebody chose others before.
let begun = false;
function begin() {
  const first = served.first();
  if (begun || !first) return;
  begun = true;
  if (kept.get("talk.a") && kept.get("talk.b")) return;
  sides.a.language = first.src;
  sides.b.language = first.tgt;
}

function choose(side, code) {
  const before = side.language;
  side.language = code;
  // Two people with one language need no translation: the other one gets what this one had.
  if (other(side).language === code) other(side).language = before;
  kept.set("talk.a", sides.a.language);
  kept.set("talk.b", sides.b.language);
  for (const one of Object.values(sides)) {
    one.trouble("");
    one.fill(served);
  }
  draw();
  look();
}

// ---- tokens

function ask(why) {
  if (lock === why) return;
  const first = lock === null;
  lock = why;
  draw();
  if (first) byId("lock-token").focus();
}

function showToken() {
  const field = byId("lock-token");
  const shown = field.value.trim();
  field.value = "";
  if (!/^[\x21-\x7e]{1,4096}$/.test(shown)) return ask("token.wrong");
  token = shown;
  lock = null;
  if (session.state === "closed") converse();
  else session.authorize(token);
  look();
  draw();
}

// ---- what is shown

let toastEnd = 0;
function say(text) {
  const toast = byId("toast");
  toast.textContent = text;
  toast.classList.add("shown");
  clearTimeout(toastEnd);
  toastEnd = setTimeout(() => toast.classList.remove("shown"), 6000);
}

function notice() {
  const unserved = [directionOf(sides.a), directionOf(sides.b)].filter((pair) => !served.has(pair));
  const box = byId("notice");
  box.hidden = lock !== null || !served.known || unserved.length === 0;
  if (box.hidden) return;
  const pair = unserved.map(pairName).join(language() === "zh" ? "、" : ", ");
  box.replaceChildren(...(!served.isEmpty ? [t("no.pair", { pair })] : isOperator ? startANode() : [t("no.nodes")]));
}

function startANode() {
  const code = document.createElement("code");
  code.textContent = `lingua node --langs ${sides.a.language},${sides.b.language}`;
  return [t("no.nodes.operator"), " ", code];
}

function banner() {
  const { state, why } = change;
  const lost = state === "reconnecting" || (state === "connecting" && why !== "");
  const words = lost ? t(state === "reconnecting" ? "banner.lost" : "banner.never") : state === "closed" && lock === null ? t("banner.closed", { why }) : "";
  const box = byId("banner");
  if (box.textContent !== words) box.textContent = words;
  box.hidden = words === "";
}

function draw() {
  translate();
  byId("state").className = `live ${change.state === "open" ? "on" : ["reconnecting", "closed"].includes(change.state) ? "off" : "wait"}`;
  byId("state").dataset.state = change.state;
  byId("state-text").textContent = t(`state.${change.state}`);
  byId("lock").hidden = lock === null;
  byId("main").hidden = lock !== null;
  byId("lock-operator").hidden = !isOperator;
  byId("lock-why").textContent = lock ? t(lock) : "";
  for (const button of document.querySelectorAll("[data-do=lang]")) button.setAttribute("aria-pressed", String(button.dataset.value === language()));
  for (const button of document.querySelectorAll("[data-do=theme]")) button.setAttribute("aria-pressed", String(button.dataset.value === document.documentElement.dataset.theme));
  banner();
  notice();
  for (const side of Object.values(sides)) side.draw();
}

function setFlip(wanted) {
  byId("table").classList.toggle("flipped", wanted);
  document.querySelector("[data-do=flip]").setAttribute("aria-pressed", String(wanted));
}

const DO = {
  lang(value) {
    kept.set("lang", value);
    setLanguage(value);
    for (const side of Object.values(sides)) side.fill(served);
    draw();
    past.draw();
  },
  theme(value) {
    kept.set("theme", value);
    document.documentElement.dataset.theme = value;
    draw();
  },
  swap() { choose(sides.a, sides.b.language); },
  auto() { toggleAuto(!auto.on); },
  flip() {
    const wanted = !byId("table").classList.contains("flipped");
    kept.set("talk.flip", wanted ? "yes" : "no");
    setFlip(wanted);
  },
  clear() { past.clear(); },
};

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-do]");
  if (button) DO[button.dataset.do](button.dataset.value);
});
byId("lock-form").addEventListener("submit", (event) => {
  event.preventDefault();
  showToken();
});
addEventListener("online", () => session?.retry());
addEventListener("pagehide", () => microphone.close());
setInterval(() => !document.hidden && lock === null && look(), LOOK_MS);

setLanguage(kept.get("lang") ?? (navigator.language.startsWith("zh") ? "zh" : "en"));
document.documentElement.dataset.theme = kept.get("theme") ?? "auto";
sides.a.language = kept.get("talk.a") ?? (language() === "zh" ? "zh" : "en");
sides.b.language = kept.get("talk.b") ?? (language() === "zh" ? "en" : "zh");
setFlip(kept.get("talk.flip") === "yes");
for (const side of Object.values(sides)) side.fill(served);
past.draw();
draw();
if (!isSecureContext) for (const side of Object.values(sides)) side.trouble(side.t("mic.insecure"));
codec = await bestCodec();
await look();
converse();
