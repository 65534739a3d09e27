// Sessions, instances, one job, and the box that explains.

import { h } from "./dom.js";
import { fact, failed } from "./nodes.js";
import { arrow, clock, number, span, t } from "./words.js";

export function sessions(state) {
  const { data, error } = state.sessions;
  if (error && !data) return [failed(error)];
  if (!data) return [h("p", { class: "loading", role: "status" }, t("loading"))];
  return [h("section", { class: "card", "data-key": "sessions" },
    h("div", { class: "head" }, h("h2", {}, t("sessions")),
      h("span", { class: "note" }, t("sessions.shown", { n: number(data.sessions.length), all: number(data.total) }))),
    data.silent.map((id) => h("p", { class: "problem", "data-silent": id }, t("sessions.silent", { id }))),
    data.sessions.length === 0
      ? h("div", { class: "empty" }, h("p", {}, t("sessions.empty")), h("pre", {}, "lingua speak --signal 3 --sentences 5"))
      : h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": t("sessions") },
        h("table", { class: "list stack" },
          h("thead", {}, h("tr", {}, ["id", "direction", "client", "instance", "utterances", "since", "tenant"].map((name) =>
            h("th", { scope: "col" }, t(`s.${name}`))))),
          h("tbody", {}, data.sessions.map((one) => h("tr", { "data-key": `${one.session_id} ${one.instance}`, "data-session": one.session_id },
            h("th", { scope: "row", class: "id" }, one.session_id), h("td", { class: "num", "data-label": t("s.direction") }, arrow(one.direction)),
            h("td", { "data-label": t("s.client") }, h("span", { class: `state ${one.connected ? "ready" : "draining"}` }, t(one.connected ? "s.here" : "s.away"))),
            h("td", { "data-label": t("s.instance") }, one.instance),
            h("td", { class: "num", "data-label": t("s.utterances") }, number(one.utterances)),
            h("td", { class: "num", "data-label": t("s.since") }, clock(one.since_ms)),
            h("td", { "data-label": t("s.tenant") }, one.tenant)))))),
    data.next && h("button", { type: "button", class: "more", "data-do": "more" }, t("nodes.next")))];
}

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
          h("td", { class: "num", "data-label": t("i.sessions") }, number(one.sessions)),
          h("td", { class: "num", "data-label": t("i.jobs") }, `${number(one.open_jobs)} / ${number(one.waiting)}`),
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
      error ? h("p", { class: "problem" }, error) : data ? answer(data) : h("p", { class: "empty" }, t("e.idle")))),
  h("section", { class: "card", "data-key": "find" }, h("h2", {}, t("job")),
    h("form", { "data-form": "job", class: "ask" },
      h("label", {}, t("job.find"), h("input", { name: "job", id: "job-id", size: 30, required: true, autocomplete: "off", spellcheck: "false", maxlength: 64 })),
      h("button", {}, t("job.open"))))];
}

function answer(data) {
  const node = data.node;
  return [
    h("p", { class: data.eligible > 0 ? "fine" : "problem", "data-eligible": data.eligible },
      h("strong", {}, `${data.src} → ${data.tgt}: `),
      data.eligible > 0 ? t("e.some", { n: number(data.eligible), all: number(data.nodes) }) : t("e.nobody"),
      " ", data.missing || ""),
    data.waiting > 0 && h("p", {}, t("e.waiting", { n: number(data.waiting) })),
    node && h("p", {}, node.eligible ? t("e.one", { id: node.node_id })
      : t("e.not", { id: node.node_id, why: node.why_not.map((why) => t(`why.${why}`)).join(", ") })),
    data.reasons.length > 0 && h("table", { class: "list slim" },
      h("caption", {}, t("e.reasons")),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("e.reason")), h("th", { scope: "col" }, t("e.nodes")))),
      h("tbody", {}, data.reasons.map((one) => h("tr", { "data-key": one.reason },
        h("td", {}, t(`why.${one.reason}`)), h("td", { class: "num" }, number(one.nodes)))))),
  ];
}

export function job(state) {
  const { data, error, id } = state.job;
  const back = h("p", { "data-key": "back" }, h("a", { href: "#/" }, "← ", t("nav.")));
  if (error) return [back, error === "NOT_FOUND" ? h("p", { class: "empty card", "data-key": "gone" }, t("job.gone")) : failed(error)];
  if (!data) return [back, h("p", { class: "loading", role: "status" }, t("loading"))];
  const times = data.timings;
  const ended = times?.ended_ms;
  return [back, h("section", { class: "card", "data-key": `job-${id}`, "data-job": id },
    h("div", { class: "head" }, h("h2", { class: "id" }, id), h("span", { class: `state ${data.state === "DONE" ? "ready" : data.state === "FAILED" ? "offline" : "draining"}` }, data.state)),
    data.error && h("div", { class: "problem" }, h("h3", {}, t("job.error")), h("p", {}, h("code", {}, data.error.code), " ", data.error.detail)),
    h("dl", { class: "facts" }, fact(t("job.session"), data.session_id),
      times && fact(t("job.handed"), clock(times.created_ms)),
      times && fact(t("job.ended"), ended ? `${clock(ended)} · ${t("job.total", { ms: span(ended - times.created_ms) })}` : t("job.running")),
      times && times.waited_ms > 0 && fact(t("kpi.waiting"), t("job.waited", { ms: span(times.waited_ms) })),
      data.notes.length > 0 && fact(t("job.notes"), data.notes.join(" "))),
    h("h3", {}, t("job.timeline")),
    data.attempts.length === 0 ? h("p", { class: "empty" }, t("job.none")) : timeline(data))];
}

function timeline(data) {
  const times = data.timings;
  const last = Math.max(...data.attempts.map((one) => one.ended_ms || one.acked_ms || one.sent_ms), times?.ended_ms || 0);
  const first = times?.created_ms ?? data.attempts[0].sent_ms;
  const width = Math.max(1, last - first);
  const share = (ms) => (1000 * (ms - first)) / width;
  return h("ol", { class: "timeline" }, data.attempts.map((one) => {
    const end = one.ended_ms ?? last;
    const fine = one.outcome === "ok" || one.outcome === undefined;
    const steps = [[t("job.sent"), one.sent_ms], [t("job.acked"), one.acked_ms], [t("job.ended"), one.ended_ms]];
    return h("li", { "data-key": one.number, "data-attempt": one.number, "data-outcome": one.outcome || "" },
      h("div", { class: "what" }, h("strong", {}, t("job.attempt", { n: one.number, node: one.node_id })), " ",
        h("code", { class: fine ? "good" : "bad" }, one.outcome || t("job.running")), " ",
        h("a", { href: `#/nodes/${encodeURIComponent(one.node_id)}` }, t("n.id"))),
      track(share(one.sent_ms), share(one.acked_ms ?? one.sent_ms), share(end), fine),
      h("p", { class: "note num" }, steps.filter(([, ms]) => ms).map(([name, ms]) => `${name} +${span(ms - first)}`).join("  ·  ")));
  }));
}

function track(sent, acked, end, fine) {
  const SVG = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(SVG, "svg");
  for (const [name, value] of [["viewBox", "0 0 1000 14"], ["preserveAspectRatio", "none"], ["class", "track"], ["aria-hidden", "true"]]) {
    svg.setAttribute(name, value);
  }
  for (const [kind, from, to] of [["ground", 0, 1000], ["sent", sent, acked], [fine ? "good" : "bad", acked, end]]) {
    const bar = document.createElementNS(SVG, "rect");
    for (const [name, value] of [["x", from], ["y", 0], ["width", Math.max(kind === "sent" ? 0 : 3, to - from)], ["height", 14], ["rx", 3], ["class", kind]]) {
      bar.setAttribute(name, value);
    }
    svg.append(bar);
  }
  return svg;
}
