// The nodes, and one of them with all that is known of it.

import { h } from "./dom.js";
import { bars, lines } from "./charts.js";
import { mayChange } from "./line.js";
import { jobsHref, pairLink } from "./links.js";
import { arrow, idle, number, span, t, whyNot } from "./words.js";

const COLUMNS = {
  id: (node) => node.node_id, state: (node) => node.state, load: (node) => node.slots.used / Math.max(1, node.slots.open),
  langs: (node) => langs(node).join(" "), breaker: (node) => node.breaker, latency: (node) => node.latency_ms ?? -1,
  done: (node) => node.done,
};

const langs = (node) =>
  [...new Set([...node.abilities.semantic_langs, ...node.abilities.tts_langs])].sort();

export function list(state) {
  const { data, error } = state.nodes;
  if (error && !data) return [failed(error)];
  if (!data) return [h("p", { class: "loading", role: "status" }, t("loading"))];
  const wanted = state.nodes.filter.trim().toLowerCase();
  const text = (node) => [node.node_id, node.state, t(`state.${node.state}`), ...langs(node)].join(" ").toLowerCase();
  const fits = data.nodes.filter((node) => text(node).includes(wanted));
  const { by, down } = state.nodes.sort;
  const key = COLUMNS[by];
  fits.sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : a.node_id < b.node_id ? -1 : 1) * (down ? -1 : 1));
  const heading = (name) => h("th", { scope: "col", "data-key": name, "aria-sort": by === name ? (down ? "descending" : "ascending") : "none" },
    h("button", { type: "button", class: "sort", "data-do": "sort", "data-by": name }, t(`n.${name}`),
      h("span", { "aria-hidden": "true", class: "arrow" }, by === name ? (down ? "▼" : "▲") : "")));
  return [h("section", { class: "card", "data-key": "nodes" },
    h("div", { class: "head" }, h("h2", {}, t("nodes")),
      h("input", { type: "search", id: "node-filter", "data-input": "filter", placeholder: t("nodes.filter"), "aria-label": t("nodes.filter"), value: state.nodes.filter }),
      h("span", { class: "note" }, t("nodes.shown", { n: fits.length, all: data.total }))),
    data.total === 0
      ? h("div", { class: "empty" }, h("p", {}, t("nodes.empty")), h("pre", {}, "lingua node --count 3"))
      : fits.length === 0 ? h("p", { class: "empty" }, t("nodes.none"))
        : h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": t("nodes") },
          h("table", { class: "list nodes" },
            h("thead", {}, h("tr", {}, Object.keys(COLUMNS).map(heading),
              h("th", { scope: "col" }, t("n.idle")), h("th", { scope: "col" }, t("n.act")))),
            h("tbody", {}, fits.map((node) => row(node, several(state)))))),
    data.next && h("button", { type: "button", class: "more", "data-do": "more" }, t("nodes.next")))];
}

// Whose connection a node has is worth a word only where there is a choice.
const several = (state) => (state.stats?.snapshot?.instances.length ?? 1) > 1;

function row(node, ofSeveral) {
  return h("tr", { "data-key": node.node_id, "data-node": node.node_id, "data-state": node.state },
    h("th", { scope: "row" }, h("a", { href: `#/nodes/${encodeURIComponent(node.node_id)}` }, node.node_id),
      ofSeveral && h("span", { class: "note" }, " ", t("n.on", { instance: node.instance }))),
    h("td", { "data-label": t("n.state") }, stateOf(node)),
    h("td", { class: "load", "data-label": t("n.load") }, load(node)),
    h("td", { class: "langs", "data-label": t("n.langs") }, langs(node).join(" ")),
    h("td", { "data-label": t("n.breaker") }, breaker(node)),
    h("td", { class: "num", "data-label": t("n.latency") }, node.latency_ms === undefined ? "–" : span(node.latency_ms)),
    h("td", { class: "num", "data-label": t("n.done") }, `${number(node.done)} / ${number(node.failed)}`),
    h("td", { class: "why", "data-label": t("n.idle") }, node.why_idle.map(idle).join("; ")),
    h("td", { class: "acts" }, buttons(node, false)));
}

function stateOf(node) {
  return [h("span", { class: `state ${node.state}` }, t(`state.${node.state}`)),
    node.order !== "serve" && h("span", { class: "note" }, " ", t(`order.${node.order}`))];
}

function load(node) {
  const { used, open } = node.slots;
  return [h("progress", { max: Math.max(1, open), value: used, "aria-hidden": "true", tabindex: -1 }),
    h("span", { class: "num" }, ` ${used}/${open}`)];
}

function breaker(node) {
  return h("span", { class: `breaker ${node.breaker}` }, t(`breaker.${node.breaker}`));
}

function buttons(node, all) {
  if (!mayChange()) return null;
  const button = (what) => h("button", {
    type: "button", "data-key": what, "data-do": what, "data-node-id": node.node_id,
    "aria-label": `${t(`do.${what}`)} ${node.node_id}`,
  }, t(`do.${what}`));
  const wanted = node.order === "serve" ? ["drain"] : ["resume"];
  if (all && node.order !== "block") wanted.push("block");
  return h("div", { class: "buttons" }, wanted.map(button));
}

export function failed(error) {
  return h("section", { class: "card problem", role: "alert", "data-key": "failed" },
    h("p", {}, t("failed", { why: error })), h("button", { type: "button", "data-do": "retry" }, t("retry")));
}

export function one(state) {
  const { data, error, id } = state.node;
  const back = h("p", { "data-key": "back" }, h("a", { href: "#/nodes" }, "← ", t("nodes")));
  if (error) return [back, error === "NOT_FOUND" ? h("p", { class: "empty card", "data-key": "gone" }, t("node.gone")) : failed(error)];
  if (!data) return [back, h("p", { class: "loading", role: "status" }, t("loading"))];
  const { abilities, detail } = data;
  const facts = [
    ["d.instance", data.instance], ["d.version", detail.version], ["d.platform", detail.platform],
    ["d.cpu", percent(detail.cpu_percent)], ["d.gpu", percent(detail.gpu_percent)],
    ["d.gpumem", percent(detail.gpu_mem_percent)], ["d.mem", percent(detail.mem_percent)],
    ["d.error", detail.last_error], ["d.models", data.missing_models.join(", ")], ["d.supports", data.supports.join(", ")],
    ["d.hardware", hardware(detail.hardware)],
  ];
  return [back, h("section", { class: "card", "data-key": `node-${id}`, "data-node": id, "data-state": data.state },
    h("div", { class: "head" }, h("h2", { class: "id" }, id), stateOf(data), buttons(data, true)),
    h("p", { class: "note" }, h("a", { href: jobsHref({ node: id }) }, t("node.jobs")), " · ",
      h("a", { href: jobsHref({ node: id, state: "FAILED" }) }, t("node.jobs.failed"))),
    data.why_idle.length === 0
      ? h("p", { class: "fine" }, "✓ ", t("node.fine"))
      : h("div", { class: "problem" }, h("h3", {}, t("n.idle")), h("ul", {}, data.why_idle.map((why) => h("li", {}, idle(why))))),
    h("dl", { class: "facts" },
      fact(t("node.slots"), t("slots.text", data.slots)), fact(t("n.breaker"), t(`breaker.${data.breaker}`)),
      fact(t("n.latency"), data.latency_ms === undefined ? "–" : span(data.latency_ms)),
      fact(t("n.done"), `${number(data.done)} / ${number(data.failed)}`)),
    h("h3", {}, t("node.abilities")),
    h("dl", { class: "facts" },
      fact(t("node.asr"), abilities.asr_langs.join(" ")), fact(t("node.semantic"), abilities.semantic_langs.join(" ")),
      fact(t("node.tts"), abilities.tts_langs.join(" ") || "–"), fact(t("node.nmt"), abilities.nmt.map(arrow).join(",  ")),
      installed(data).map(([name, value]) => fact(t(name), value))),
    h("h3", {}, t("node.useful")),
    (data.useful_if || []).length === 0
      ? h("p", { class: "note" }, t("node.useful.none"))
      : h("ul", {}, data.useful_if.map((wish) => h("li", {}, h("strong", {}, pairLink(wish.direction)), " ",
        t("node.lacks", { what: whyNot(wish.lacks) }),
        wish.asks ? h("span", { class: "note" }, ` ${wish.asks.join(", ")}`) : null))),
    h("h3", {}, t("node.detail")),
    h("dl", { class: "facts" }, facts.filter(([, value]) => value || value === 0).map(([name, value]) => fact(t(name), name === "d.instance" ? h("a", { href: "#/instances" }, value) : String(value))))),
  past(state)];
}

const named = ({ id, name, version }) => `${id ?? name}${version ? ` ${version}` : ""}`;

// What the node says that it has: only the lists that it sent.
function installed({ abilities, inventory = {} }) {
  const model = (one) => named(one) + (one.loaded ? "" : ` (${t("node.unloaded")})`);
  const service = (one) => named(one) + (one.status === "running" ? "" : ` (${one.status})`);
  const { models, services, features } = inventory;
  const rows = [
    ["node.region", abilities.region], ["node.models", models?.map(model).join(", ")],
    ["node.services", services?.map(service).join(", ")], ["node.features", features?.map(named).join(", ")],
  ];
  return rows.filter(([, value]) => value);
}

const RANGES_MIN = [60, 1440];

// What it did by the minute: slots taken, and jobs that it did or failed.
function past(state) {
  const points = state.node.history?.data?.points ?? [];
  const { range, probe } = state.node.chart;
  const gap = 240000;
  const shape = { gap, range, probe };
  const ended = points.map((point) => ({ at_ms: point.at_ms, ended: { done: point.done, failed: point.failed } }));
  const series = (code, tone, area) => ({ code, name: t(`node.${code}`), tone, area, of: (point) => (point.slots > 0 || point.used > 0 ? point[code] : null) });
  return h("section", { class: "charts two", "data-key": "past", "aria-label": t("node.past") },
    h("figure", { class: "card", "data-key": "slots", "data-chart": "slots" },
      h("figcaption", {}, h("h2", {}, t("node.slots")),
        h("div", { class: "choice", role: "group", "aria-label": t("chart.range") },
          RANGES_MIN.map((minutes) => h("button", { type: "button", "data-do": "nodeRange", "data-minutes": minutes, "aria-pressed": String(minutes * 60000 === range) },
            t("chart.hours", { n: minutes / 60 }))))),
      lines(points, [series("used", "t-ok", true), series("slots", "t-busy")], { ...shape, label: t("node.slots"), write: number })),
    h("figure", { class: "card", "data-key": "done", "data-chart": "done" },
      h("figcaption", {}, h("h2", {}, t("node.ended"))),
      bars(ended, [{ code: "done", name: t("node.done"), tone: "t-ok" }, { code: "failed", name: t("node.failed"), tone: "t-late" }], { ...shape, label: t("node.ended") })));
}

// What a node says of its machine is its own word: only what is known of it is shown.
function hardware(said) {
  if (!said || typeof said !== "object") return null;
  const gpus = Array.isArray(said.gpus) ? said.gpus : [];
  const size = (gb) => (Number.isFinite(gb) ? ` (${number(gb)} GB)` : "");
  return [
    ...gpus.slice(0, 8).map((gpu) => `${gpu?.name ?? "GPU"}${size(gpu?.memory_gb)}`),
    Number.isFinite(said.cpu_cores) && `${number(said.cpu_cores)} CPU`,
    Number.isFinite(said.memory_gb) && `${number(said.memory_gb)} GB RAM`,
  ].filter(Boolean).join(", ");
}

const percent = (value) => (value === undefined ? null : `${number(value)} %`);

export const fact = (name, value) => h("div", { "data-key": name }, h("dt", {}, name), h("dd", {}, value));
