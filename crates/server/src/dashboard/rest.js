// Instances, and the box that explains.

import { h } from "./dom.js";
import { jobsHref, linked, nodeHref, sessionsHref } from "./links.js";
import { clock, number, span, t, whyNot } from "./words.js";

export function instances(state) {
  const stats = state.stats;
  const snapshot = stats?.snapshot;
  if (!snapshot) return [h("p", { class: "empty card" }, t("instances.empty"))];
  const word = (one) => (one.missing ? ["offline", "i.missing"] : one.draining ? ["draining", "i.draining"] : ["ready", "i.alive"]);
  return [h("section", { class: "card", "data-key": "instances" }, h("h2", {}, t("instances")),
    h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": t("instances") },
      h("table", { class: "list stack" },
        h("thead", {}, h("tr", {}, ["id", "state", "nodes", "sessions", "jobs", "inbox", "leads", "since", "seen", "version", "address"].map((name) =>
          h("th", { scope: "col" }, t(`i.${name}`))))),
        h("tbody", {}, snapshot.instances.map((one) => h("tr", { "data-key": one.id, "data-instance": one.id },
          h("th", { scope: "row" }, one.id, one.id === stats.instance && h("span", { class: "note" }, " ", t("i.this"))),
          h("td", { "data-label": t("i.state") }, h("span", { class: `state ${word(one)[0]}` }, t(word(one)[1]))),
          h("td", { class: "num", "data-label": t("i.nodes") }, number(one.nodes)),
          h("td", { class: "num", "data-label": t("i.sessions") }, h("a", { href: sessionsHref({ instance: one.id }) }, number(one.sessions))),
          h("td", { class: "num", "data-label": t("i.jobs") }, h("a", { href: jobsHref({ instance: one.id, state: "open" }) }, `${number(one.open_jobs)} / ${number(one.waiting)}`)),
          h("td", { class: "num", "data-label": t("i.inbox") }, number(one.inbox)),
          h("td", { "data-label": t("i.leads") }, one.leads.map((task) => h("span", { class: "chip", "data-key": task }, t(`task.${task}`)))),
          h("td", { class: "num", "data-label": t("i.since") }, span(snapshot.at_ms - one.started_ms)),
          h("td", { class: "num", "data-label": t("i.seen") }, clock(one.last_seen_ms)),
          h("td", { "data-label": t("i.version") }, one.version),
          h("td", { class: "id", "data-label": t("i.address") }, one.address)))))))];
}

export function explain(state) {
  const { form, data, error } = state.explain;
  const field = (name, extra) => h("label", { "data-key": name }, t(`e.${name}`),
    h("input", { name, id: `e-${name}`, value: form[name], autocomplete: "off", spellcheck: "false", maxlength: 64, ...extra }));
  return [h("section", { class: "card", "data-key": "explain" }, h("h2", {}, t("explain")), h("p", { class: "note" }, t("explain.note")),
    h("form", { id: "explain", "data-form": "explain", class: "ask" },
      field("src", { required: true, size: 6 }), field("tgt", { required: true, size: 6 }), field("node", { size: 16 }),
      h("label", { class: "check", "data-key": "tts" }, h("input", { type: "checkbox", name: "tts", id: "e-tts", checked: form.tts }), t("e.tts")),
      h("button", { class: "primary" }, t("e.ask"))),
    h("div", { class: "answer", "aria-live": "polite", id: "answer" },
      error ? h("p", { class: "problem" }, error) : data ? answer(data) : h("p", { class: "empty" }, t("e.idle"))))];
}

function answer(data) {
  const node = data.node;
  return [
    h("p", { class: data.eligible > 0 ? "fine" : "problem", "data-eligible": data.eligible },
      h("strong", {}, `${data.src} → ${data.tgt}: `),
      data.eligible > 0 ? t("e.some", { n: number(data.eligible), all: number(data.nodes) }) : t("e.nobody"),
      " ", data.missing || ""),
    h("p", {}, data.waiting > 0 && [t("e.waiting", { n: number(data.waiting) }), " "],
      h("a", { href: jobsHref({ src: data.src, tgt: data.tgt }) }, t("e.jobs"))),
    node && h("p", {}, linked(node.eligible ? t("e.one", { id: node.node_id })
      : t("e.not", { id: node.node_id, why: whyNot(node.why_not) }), [[node.node_id, nodeHref(node.node_id)]])),
    data.reasons.length > 0 && h("table", { class: "list slim" },
      h("caption", {}, t("e.reasons")),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("e.reason")), h("th", { scope: "col" }, t("e.nodes")))),
      h("tbody", {}, data.reasons.map((one) => h("tr", { "data-key": one.reason },
        h("td", {}, whyNot([one.reason])), h("td", { class: "num" }, number(one.nodes)))))),
  ];
}
