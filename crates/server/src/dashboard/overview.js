// The headline, the figures, the charts, the matrix of pairs, and the jobs that failed lately.

import { h } from "./dom.js";
import { bars, lines } from "./charts.js";
import { codeLink, explainHref, jobLink, jobsHref, languages, linked, nodeHref, nodeLink, pairLink } from "./links.js";
import { catalogue } from "./usage.js";
import { arrow, clock, finding, number, span, t, tn } from "./words.js";

const ICONS = { ok: "✓", warning: "!", critical: "✕" };

// Where a finding leads that names nothing of its own.
const LEADS = {
  error_rate: ["link.jobs", () => jobsHref({ state: "FAILED" })],
  queue_timeouts: ["link.jobs", () => jobsHref({ code: "ALL_NODES_BUSY" })],
  pair_starved: ["link.jobs", (found) => jobsHref({ state: "WAITING", ...languages(found.subject) })],
  no_ready_node: ["link.nodes", () => "#/nodes"],
  all_slots_taken: ["link.nodes", () => "#/nodes"],
};

// A finding in words, in which all that it speaks of has its link.
function told(found) {
  const subject = found.subject && [arrow(found.subject), found.code.startsWith("pair_") ? explainHref(found.subject) : "#/instances"];
  const nodes = (found.nodes ?? []).map((id) => [id, nodeHref(id)]);
  const lead = LEADS[found.code];
  return [linked(finding(found), subject ? [subject, ...nodes] : nodes), lead && [" ", h("a", { class: "lead", href: lead[1](found) }, t(lead[0]))]];
}

// In one sentence: all well, or what is wrong; the rest below it.
export function headline(state) {
  const stats = state.stats;
  if (!stats) return [h("div", { class: "word wait" }, h("span", { class: "mark", "aria-hidden": "true" }, "…"),
    h("div", { class: "said" }, h("div", { role: "status", "aria-live": "polite" }, h("h1", {}, t("starting"))), h("p", { class: "sub" }, t("what"))))];
  const snapshot = stats.snapshot;
  const grave = stats.findings.filter((found) => found.severity !== "ok");
  const calm = stats.findings.filter((found) => found.severity === "ok");
  const first = grave[0];
  const health = snapshot || first ? stats.health : "wait";
  const said = first ? told(first) : snapshot ? t("well") : t("starting");
  const rest = [...grave.slice(1), ...calm];
  return [
    h("div", { class: `word ${health}`, "data-health": health },
      h("span", { class: "mark", "aria-hidden": "true" }, ICONS[health] || "…"),
      h("div", { class: "said" },
        h("div", { role: "status", "aria-live": "polite" }, h("h1", { "data-code": first ? first.code : "well" }, said)),
        h("p", { class: "sub" }, snapshot ? summary(snapshot) : t("what")),
        rest.length > 0 && h("ul", { class: "also", "aria-label": t("more") }, rest.map((found) =>
          h("li", { class: found.severity, "data-code": found.code },
            h("span", { class: "mini", "aria-hidden": "true" }, found.severity === "ok" ? "i" : ICONS[found.severity]),
            h("span", {}, told(found))))))),
  ];
}

function summary(snapshot) {
  return t("now", {
    instances: tn("instances.n", snapshot.instances.filter((one) => !one.missing).length),
    nodes: tn("nodes.n", snapshot.nodes.ready),
    speakers: tn("speakers.n", snapshot.work.connected),
    rate: number(snapshot.work.ended_per_s),
  });
}

export function overview(state) {
  const snapshot = state.stats?.snapshot;
  if (!snapshot) return [skeleton()];
  return [
    snapshot.nodes.total === 0 && firstSteps(),
    figures(snapshot, state.points),
    charts(state, snapshot),
    h("div", { class: "pair", "data-key": "pair" }, matrix(snapshot), catalogue(state), failures(snapshot)),
  ];
}

export function skeleton() {
  return h("div", { class: "skeleton", role: "status", "data-key": "skeleton" },
    h("span", { class: "hidden" }, t("loading")),
    [1, 2, 3].map(() => h("div", { class: "bone" })));
}

function firstSteps() {
  return h("section", { class: "card first", "data-key": "first" },
    h("h2", {}, t("first.title")), h("p", {}, t("what")), h("p", {}, t("first.text")),
    h("pre", {}, "lingua node --count 3\nlingua speak --signal 3s --sentences 5"));
}

const TILE_LINKS = {
  rate: jobsHref({ state: "open" }), ok: jobsHref({ state: "FAILED" }), slots: "#/nodes", waiting: jobsHref({ state: "WAITING" }), sessions: "#/sessions",
};

function tile(key, value, sub, bar) {
  return h("div", { class: "tile", "data-key": key, "data-figure": key },
    h("dt", {}, TILE_LINKS[key] ? h("a", { href: TILE_LINKS[key] }, t(`kpi.${key}`)) : t(`kpi.${key}`)),
    h("dd", {}, h("span", { class: "value" }, value), " ", sub && h("span", { class: "sub" }, sub)),
    bar !== undefined && h("div", { class: "meter", "aria-hidden": "true" },
      h("progress", { max: 100, value: bar, tabindex: -1 })));
}

function figures(snapshot, points) {
  const { work, nodes, latency } = snapshot;
  const minute = points.filter((point) => point.at_ms > snapshot.at_ms - 60000);
  const ended = {};
  for (const point of minute) {
    for (const [code, n] of Object.entries(point.ended)) ended[code] = (ended[code] || 0) + n;
  }
  const all = Object.values(ended).reduce((sum, n) => sum + n, 0);
  const fine = (ended.ok || 0) + (ended.empty || 0) + (ended.JOB_CANCELLED || 0);
  const spoken = minute.filter((point) => point.latency.sentence.count > 0).at(-1);
  const sentence = latency.sentence.count > 0 ? latency.sentence : spoken?.latency.sentence;
  const used = nodes.slots > 0 ? (100 * nodes.used) / nodes.slots : 0;
  return h("dl", { class: "tiles", "data-key": "figures" },
    tile("rate", number(work.ended_per_s), t("kpi.open", { n: number(work.open_jobs) })),
    tile("ok", all > 0 ? `${number(Math.floor((1000 * fine) / all) / 10)} %` : "–", all > 0 ? t("kpi.ok.sub") : t("kpi.none")),
    tile("sentence", sentence ? span(sentence.p95_ms) : "–", t("kpi.sentence.sub")),
    tile("slots", number(nodes.used), t("kpi.slots.sub", { n: number(nodes.slots) }), used),
    tile("waiting", number(work.waiting)),
    tile("sessions", number(work.sessions), t("kpi.sessions.sub", { n: number(work.connected) })));
}

const RANGES_MIN = [5, 30, 1440];
const rangeWord = (minutes) => (minutes < 60 ? t("chart.minutes", { n: minutes }) : t("chart.hours", { n: minutes / 60 }));

const TONES = {
  ok: "t-ok", empty: "t-calm", JOB_CANCELLED: "t-grey", ALL_NODES_BUSY: "t-busy", JOB_TIMEOUT: "t-late",
  NO_CAPABLE_NODE: "t-none", SCHEDULER_DEPENDENCY_DOWN: "t-store",
};

function charts(state, snapshot) {
  const { range, probe } = state.chart;
  const byMinute = range > 30 * 60000;
  const points = byMinute ? state.day.points : state.points;
  const gap = (byMinute ? 60000 : snapshot.interval_ms) * 4;
  const codes = [...new Set(points.flatMap((point) => Object.keys(point.ended)))];
  const order = [...Object.keys(TONES), ...codes.filter((code) => !TONES[code]).sort()];
  const stack = order.filter((code) => codes.includes(code))
    .map((code) => ({ code, name: code, tone: TONES[code] || "t-other", href: jobsHref({ code }) }));
  const kind = state.latencyOf;
  const quantile = (name, key, tone) => ({ code: key, name, tone, of: (p) => (p.latency[kind].count > 0 ? p.latency[kind][key] : null) });
  return h("section", { class: "charts", "data-key": "charts", "aria-label": t("charts") },
    h("figure", { class: "card", "data-key": "rate", "data-chart": "rate" },
      h("figcaption", {}, h("h2", {}, t("chart.rate")),
        h("div", { class: "choice", role: "group", "aria-label": t("chart.range") },
          RANGES_MIN.map((minutes) => h("button", { type: "button", "data-do": "range", "data-minutes": minutes, "aria-pressed": String(minutes * 60000 === range) },
            rangeWord(minutes))))),
      lines(points, [{ code: "rate", name: t("series.rate"), tone: "t-ok", area: true, of: (p) => p.ended_per_s }],
        { label: t("chart.rate"), write: number, gap, range, probe })),
    h("figure", { class: "card", "data-key": "latency", "data-chart": "latency" },
      h("figcaption", {}, h("h2", {}, t("chart.latency")),
        h("div", { class: "choice", role: "group", "aria-label": t("latency.of") },
          ["job", "dispatch", "sentence"].map((one) =>
            h("button", { type: "button", "data-do": "latency", "data-of": one, "aria-pressed": String(one === kind) },
              t(`latency.${one}`))))),
      lines(points, [
        quantile("p50", "p50_ms", "t-ok"), quantile("p95", "p95_ms", "t-busy"), quantile("p99", "p99_ms", "t-late"),
      ], { label: t("chart.latency"), write: span, gap, range, probe })),
    h("figure", { class: "card", "data-key": "endings", "data-chart": "endings" },
      h("figcaption", {}, h("h2", {}, t("chart.endings"))),
      bars(points, stack, { label: t("chart.endings"), gap, range, probe })));
}

const SIGNS = { good: "●", tight: "◐", full: "○", starved: "▲", unserved: "∅" };
const WEIGHT = { starved: 4, unserved: 3, full: 2, tight: 1, good: 0 };
const MAX_SIDE = 24;

function matrix(snapshot) {
  const pairs = snapshot.pairs;
  if (pairs.length === 0) {
    return h("section", { class: "card", "data-key": "matrix" }, h("h2", {}, t("matrix")),
      h("p", { class: "empty" }, t("matrix.empty")));
  }
  const cells = new Map(pairs.map((pair) => [`${pair.src}>${pair.tgt}`, pair]));
  // Of very many languages those in trouble come first, then those with most nodes.
  const rank = new Map();
  for (const pair of pairs) {
    for (const side of [pair.src, pair.tgt]) {
      const weight = WEIGHT[pair.supply] * 1e6 + pair.waiting * 1e3 + pair.nodes;
      rank.set(side, Math.max(rank.get(side) || 0, weight));
    }
  }
  const shown = [...rank.keys()].sort((a, b) => rank.get(b) - rank.get(a)).slice(0, MAX_SIDE);
  const rows = shown.filter((lang) => pairs.some((pair) => pair.src === lang)).sort();
  const columns = shown.filter((lang) => pairs.some((pair) => pair.tgt === lang)).sort();
  return h("section", { class: "card", "data-key": "matrix" },
    h("h2", {}, t("matrix")), h("p", { class: "note" }, t("matrix.note")),
    h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": t("matrix") },
      h("table", { class: "matrix" },
        h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "corner" }, t("matrix.corner")),
          columns.map((tgt) => h("th", { scope: "col", "data-key": tgt }, tgt)))),
        h("tbody", {}, rows.map((src) =>
          h("tr", { "data-key": src }, h("th", { scope: "row" }, src),
            columns.map((tgt) => cell(src, tgt, cells.get(`${src}>${tgt}`)))))))),
    h("ul", { class: "legend supply" }, Object.keys(SIGNS).map((supply) =>
      h("li", {}, h("span", { class: `sign ${supply}`, "aria-hidden": "true" }, SIGNS[supply]), t(`supply.${supply}`)))),
    rank.size > shown.length && h("p", { class: "note" }, t("matrix.more", { n: rank.size - shown.length })));
}

function cell(src, tgt, pair) {
  if (!pair) {
    return h("td", { "data-key": tgt, class: "none" }, h("span", { class: "hidden" }, t("supply.none")),
      h("span", { "aria-hidden": "true" }, "·"));
  }
  const label = t("matrix.cell", { ...pair, supply: t(`supply.${pair.supply}`) });
  return h("td", { "data-key": tgt },
    h("a", {
      class: `cell ${pair.supply}`, href: `#/explain?src=${encodeURIComponent(src)}&tgt=${encodeURIComponent(tgt)}`,
      "aria-label": label, title: label, "data-pair": `${src}->${tgt}`, "data-supply": pair.supply,
      "data-free": pair.free, "data-waiting": pair.waiting, "data-nodes": pair.nodes,
    },
    h("span", { class: "sign", "aria-hidden": "true" }, SIGNS[pair.supply]),
    h("span", { class: "slots" }, `${number(pair.free)}/${number(pair.slots)}${pair.not_open > 0 ? ` +${number(pair.not_open)}` : ""}`),
    pair.waiting > 0 && h("span", { class: "wait" }, t("matrix.wait", { n: number(pair.waiting) }))));
}

function failures(snapshot) {
  return h("section", { class: "card", "data-key": "failures", id: "failures" }, h("h2", {}, t("failures")),
    snapshot.failures.length === 0
      ? h("p", { class: "empty" }, t("failures.empty"))
      : h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": t("failures") },
        h("table", { class: "list stack" },
          h("thead", {}, h("tr", {}, ["when", "code", "direction", "node", "tries", "job"].map((name) =>
            h("th", { scope: "col" }, t(`f.${name}`))))),
          h("tbody", {}, snapshot.failures.slice(0, 12).map((one) =>
            h("tr", { "data-key": one.job_id },
              h("td", { class: "num", "data-label": t("f.when") }, clock(one.at_ms)),
              h("td", { class: "num", "data-label": t("f.code") }, codeLink(one.code)),
              h("td", { class: "num", "data-label": t("f.direction") }, pairLink(one.direction)),
              h("td", { "data-label": t("f.node") }, nodeLink(one.node_id)),
              h("td", { class: "num", "data-label": t("f.tries") }, one.attempts),
              h("td", { "data-label": t("f.job") }, jobLink(one.job_id))))))),
    h("p", { class: "note" }, h("a", { href: jobsHref({ state: "FAILED" }) }, t("failures.all"))));
}
