// What is used by day: languages over time, tenants and services. And the catalogue of services, beside the pairs.

import { h, s } from "./dom.js";
import { nodeLink } from "./links.js";
import { failed } from "./nodes.js";
import { arrow, clock, number, span, t } from "./words.js";

export const RANGES_DAYS = [7, 31];
export const BY = ["pair", "tenant", "service"];

const TONES = ["t-ok", "t-busy", "t-none", "t-calm", "t-late", "t-grey"];
const WIDTH = 800;
const HEIGHT = 190;
const LEFT = 46;
const BOTTOM = 22;
const TOP = 10;
const MAX_ROWS = 20;

// The sums of all days by name, the most first.
function sums(days) {
  const all = new Map();
  for (const row of days.flatMap((day) => day.rows)) {
    const sum = all.get(row.name) ?? { name: row.name, n: 0, speech_s: 0, failed: 0, empty: 0, cancelled: 0 };
    sum.n += row.sentences ?? row.jobs;
    sum.speech_s += row.speech_s;
    sum.failed += row.endings?.failed ?? row.failed;
    sum.empty += row.endings?.empty ?? 0;
    sum.cancelled += row.endings?.cancelled ?? 0;
    all.set(row.name, sum);
  }
  return [...all.values()].sort((a, b) => b.n - a.n || (a.name < b.name ? -1 : 1));
}

const named = (name) => (name === "other" ? t("usage.other") : name === "" ? t("usage.unknown") : arrow(name));

// A column for every day, of the pairs with most sentences.
function columns(days) {
  const all = sums(days);
  const shown = all.slice(0, TONES.length - (all.length > TONES.length ? 1 : 0)).map((sum, at) => ({ ...sum, tone: TONES[at] }));
  const known = new Set(shown.map((one) => one.name));
  const rest = all.filter((one) => !known.has(one.name)).reduce((n, one) => n + one.n, 0);
  if (rest > 0) shown.push({ name: "other", n: rest, tone: TONES.at(-1), rest: true });
  const of = (day, one) => day.rows.filter((row) => (one.rest ? !known.has(row.name) : row.name === one.name)).reduce((n, row) => n + row.sentences, 0);
  const total = (day) => day.rows.reduce((n, row) => n + row.sentences, 0);
  const top = Math.max(1, ...days.map(total));
  const room = (WIDTH - LEFT) / days.length;
  const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM);
  const every = Math.ceil(days.length / 10);
  const parts = days.map((day, at) => {
    const left = LEFT + at * room;
    let below = 0;
    const bars = shown.map((one) => {
      const count = of(day, one);
      if (count === 0) return null;
      const bar = s("rect", { x: (left + room * 0.15).toFixed(1), width: (room * 0.7).toFixed(1), y: y(below + count).toFixed(1), height: Math.max(0.8, y(below) - y(below + count)).toFixed(1), class: `bar ${one.tone}` });
      below += count;
      return bar;
    });
    const label = at % every === 0 && s("text", { x: (left + room / 2).toFixed(1), y: HEIGHT - 5, class: "tick middle" }, day.day.slice(5));
    return [s("title", {}, `${day.day}: ${number(total(day))}`), bars, label];
  });
  const lines = [0, 0.5, 1].map((share) => [
    s("line", { x1: LEFT, x2: WIDTH, y1: y(share * top), y2: y(share * top), class: "grid" }),
    s("text", { x: LEFT - 6, y: y(share * top) + 3.5, class: "tick end" }, number(share * top)),
  ]);
  const told = `${t("usage.languages")}. ${shown.map((one) => `${named(one.name)} ${number(one.n)}`).join(", ")}`;
  return [
    s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img", "aria-label": told }, lines, parts),
    h("ul", { class: "legend" }, shown.map((one) => h("li", { "data-key": one.name },
      h("span", { class: `swatch ${one.tone}`, "aria-hidden": "true" }), h("span", { class: "name" }, named(one.name)), " ",
      h("span", { class: "value", "data-pair-sum": one.name }, number(one.n))))),
  ];
}

function table(key, days, columns) {
  const rows = sums(days);
  return h("section", { class: "card", "data-key": key, "data-usage": key }, h("h2", {}, t(`usage.${key}`)),
    rows.length === 0 ? h("p", { class: "empty" }, t("usage.empty"))
      : h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": t(`usage.${key}`) },
        h("table", { class: "list stack" },
          h("thead", {}, h("tr", {}, ["name", ...columns].map((name) => h("th", { scope: "col" }, t(`usage.by.${name === "name" ? key : name}`))))),
          h("tbody", {}, rows.slice(0, MAX_ROWS).map((row) => h("tr", { "data-key": row.name, "data-row": row.name },
            h("th", { scope: "row" }, named(row.name)),
            columns.map((name) => h("td", { class: "num", "data-label": t(`usage.by.${name}`) }, name === "speech_s" ? span(row.speech_s * 1000) : number(row[name])))))))),
    rows.length > MAX_ROWS && h("p", { class: "note" }, t("usage.more", { n: rows.length - MAX_ROWS })));
}

export function view(state) {
  const { usage } = state;
  const { pair, tenant, service } = usage.by;
  const error = pair.error ?? tenant.error ?? service.error;
  if (error && !pair.data) return [failed(error)];
  if (!pair.data) return [h("p", { class: "loading", role: "status" }, t("loading"))];
  const people = Math.max(0, ...pair.data.days.map((day) => day.people));
  return [
    h("section", { class: "card", "data-key": "languages", "data-usage": "pair" },
      h("div", { class: "head" }, h("h2", {}, t("usage.languages")), h("span", { class: "note", "data-people": people }, t("usage.people", { n: number(people) })),
        h("div", { class: "choice", role: "group", "aria-label": t("chart.range") }, RANGES_DAYS.map((days) =>
          h("button", { type: "button", "data-do": "usageRange", "data-days": days, "aria-pressed": String(days === usage.days) }, t("usage.days", { n: days }))))),
      pair.data.days.some((day) => day.rows.length > 0) ? columns(pair.data.days) : h("p", { class: "empty" }, t("usage.empty"))),
    h("div", { class: "pair", "data-key": "tables" },
      tenant.data && table("tenant", tenant.data.days, ["n", "speech_s", "failed"]),
      service.data && table("service", service.data.days, ["n", "speech_s", "failed"])),
    h("p", { class: "note", "data-key": "csv" }, t("usage.csv"), " ", h("code", {}, `/api/v1/usage?by=pair&from=${pair.data.from}&to=${pair.data.to}&format=csv`)),
  ];
}

const gigabytes = (bytes) => (bytes >= 1e9 ? `${number(bytes / 1e9)} GB` : `${number(bytes / 1e6)} MB`);

// What exists, and who has it. Nothing at all where there is no catalogue.
export function catalogue(state) {
  const { data } = state.catalogue;
  if (!data?.source) return null;
  const age = data.confirmed_ms === null ? t("catalogue.never") : t("catalogue.age", { age: span(Math.max(1000, data.age_ms)), time: clock(data.confirmed_ms) });
  const on = (row) => h("li", { "data-key": row.version ?? "" },
    h("strong", {}, row.version ?? t("usage.unknown")), " ",
    t(row.running === row.nodes ? "catalogue.on" : "catalogue.on.some", { n: number(row.nodes), running: number(row.running) }), " ",
    row.node_ids.slice(0, 3).map((id, at) => [at > 0 && ", ", nodeLink(id)]), row.nodes > 3 && " …",
    !row.listed && row.version !== null && h("span", { class: "chip" }, t("catalogue.unlisted")));
  return h("section", { class: "card", "data-key": "catalogue", "data-catalogue": data.services.length }, h("h2", {}, t("catalogue")),
    h("p", { class: "note" }, age),
    data.problem && h("p", { class: "problem", "data-catalogue-problem": "" }, t("catalogue.problem", { why: data.problem })),
    data.services.length === 0 ? h("p", { class: "empty" }, t("catalogue.empty"))
      : h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": t("catalogue") },
        h("table", { class: "list stack" },
          h("thead", {}, h("tr", {}, ["service", "versions", "languages", "nodes", "jobs", "failed"].map((name) => h("th", { scope: "col" }, t(`catalogue.by.${name}`))))),
          h("tbody", {}, data.services.map((one) => h("tr", { "data-key": `${one.kind} ${one.id}`, "data-service": one.id },
            h("th", { scope: "row" }, one.title ?? one.id, " ", h("span", { class: "note" }, `${one.kind} · ${one.id}`)),
            h("td", { "data-label": t("catalogue.by.versions") }, one.versions.map((v) => (v.size_bytes ? `${v.version} (${gigabytes(v.size_bytes)})` : v.version)).join(", ") || "–"),
            h("td", { class: "langs", "data-label": t("catalogue.by.languages") }, one.languages.join(", ") || t("catalogue.all")),
            h("td", { "data-label": t("catalogue.by.nodes"), "data-nodes": one.nodes }, one.nodes === 0 ? t("catalogue.nobody") : h("ul", {}, one.installed.map(on))),
            h("td", { class: "num", "data-label": t("catalogue.by.jobs") }, number(one.jobs)),
            h("td", { class: "num", "data-label": t("catalogue.by.failed") }, number(one.failed))))))));
}
