// Jobs: the list with its filter, and one of them with its attempts.

import { h, s } from "./dom.js";
import { mayChange } from "./line.js";
import { codeLink, jobLink, jobsHref, nodeLink, pairLink, sessionLink } from "./links.js";
import { fact, failed } from "./nodes.js";
import { clock, number, reason, span, t } from "./words.js";

export const FILTERS = ["state", "src", "tgt", "tenant", "session", "node", "code", "instance"];
const STATES = ["open", "ended", "WAITING", "ACKED", "DONE", "FAILED", "CANCELLED"];
const COLUMNS = ["when", "job", "state", "direction", "node", "session", "tenant", "took", "tries"];

const TONES = { DONE: "ready", FAILED: "offline", CANCELLED: "registering" };

export const isOpen = (job) => !["DONE", "FAILED", "CANCELLED"].includes(job.state);

export const stateOf = (job) => h("span", { class: `state ${TONES[job.state] ?? "draining"}` }, t(`job.state.${job.state.toLowerCase()}`));

export function list(state) {
  const { data, error, filter } = state.jobs;
  const asked = Object.fromEntries(FILTERS.map((name) => [name, filter[name]]));
  return [
    h("section", { class: "card", "data-key": "jobs" },
      h("div", { class: "head" }, h("h2", {}, t("jobs")), data && h("span", { class: "note" }, t("jobs.shown", { n: number(data.jobs.length), all: number(data.total) }))),
      filterForm(asked),
      error && !data ? failed(error) : !data ? h("p", { class: "loading", role: "status" }, t("loading")) : [
        data.silent.map((id) => h("p", { class: "problem", "data-silent": id }, t("jobs.silent", { id }))),
        data.jobs.length === 0 ? h("p", { class: "empty" }, t("jobs.empty")) : table(data.jobs, COLUMNS, t("jobs")),
        h("div", { class: "buttons pages", "data-key": "pages" },
          filter.after && h("a", { class: "button", "data-key": "newest", href: jobsHref(asked) }, t("jobs.newest")),
          data.next && h("a", { class: "button", "data-key": "older", href: jobsHref({ ...asked, after: data.next }) }, t("jobs.older"))),
        h("p", { class: "note" }, t("jobs.kept", { n: number(data.kept.jobs), minutes: number(data.kept.for_ms / 60000) })),
      ]),
    h("section", { class: "card", "data-key": "find" }, h("h2", {}, t("job.find")),
      h("form", { "data-form": "job", class: "ask" },
        h("label", {}, t("job.find.id"), h("input", { name: "job", id: "job-id", size: 30, required: true, autocomplete: "off", spellcheck: "false", maxlength: 64 })),
        h("button", {}, t("job.open")))),
  ];
}

// Its key is what is asked for: another question is another form, with its own text in the fields.
function filterForm(asked) {
  const field = (name, size) => h("label", { "data-key": name }, t(`jobs.by.${name}`),
    h("input", { name, id: `by-${name}`, value: asked[name] ?? "", size, autocomplete: "off", spellcheck: "false", maxlength: 128 }));
  const given = Object.values(asked).some(Boolean);
  const states = STATES.includes(asked.state) || !asked.state ? STATES : [...STATES, asked.state];
  return h("form", { "data-form": "jobs", class: "ask filter", "data-key": `filter ${JSON.stringify(asked)}` },
    h("label", { "data-key": "state" }, t("job.state"),
      h("select", { name: "state", id: "by-state" }, ["", ...states].map((one) =>
        h("option", { value: one, selected: one === (asked.state ?? "") }, t(one ? `job.state.${one.toLowerCase()}` : "jobs.any"))))),
    field("src", 4), field("tgt", 4), field("tenant", 10), field("node", 12), field("code", 16), field("session", 14),
    asked.instance && field("instance", 8),
    h("div", { class: "buttons", "data-key": "act" }, h("button", { class: "primary" }, t("jobs.filter")),
      given && h("a", { class: "button", href: "#/jobs" }, t("jobs.all"))));
}

export function table(jobs, columns, label) {
  const cells = {
    when: (job) => clock(job.created_ms),
    job: (job) => jobLink(job.job_id),
    state: (job) => [stateOf(job), job.code && !["ok", "JOB_CANCELLED"].includes(job.code) && [" ", codeLink(job.code)]],
    direction: (job) => pairLink(job.direction),
    node: (job) => nodeLink(job.node_id),
    session: (job) => sessionLink(job.session_id, job.tenant),
    tenant: (job) => h("a", { href: jobsHref({ tenant: job.tenant }) }, job.tenant),
    took: (job) => (job.ended_ms ? span(job.ended_ms - job.created_ms) : "–"),
    tries: (job) => number(job.attempts),
  };
  return h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": label },
    h("table", { class: "list stack jobs" },
      h("thead", {}, h("tr", {}, columns.map((name) => h("th", { scope: "col" }, t(`j.${name}`))))),
      h("tbody", {}, jobs.map((job) => h("tr", { "data-key": job.job_id, "data-row": job.job_id, "data-job-state": job.state },
        columns.map((name) => h("td", { class: ["when", "took", "tries"].includes(name) ? "num" : null, "data-key": name, "data-label": t(`j.${name}`) }, cells[name](job))))))));
}

export function one(state) {
  const { data, error, id } = state.job;
  const back = h("p", { "data-key": "back" }, h("a", { href: "#/jobs" }, "← ", t("jobs")));
  if (error) return [back, error === "NOT_FOUND" ? h("p", { class: "empty card", "data-key": "gone" }, t("job.gone")) : failed(error)];
  if (!data) return [back, h("p", { class: "loading", role: "status" }, t("loading"))];
  const times = data.timings;
  const ended = times?.ended_ms;
  const failure = data.state === "FAILED" || data.code === "empty";
  return [back, h("section", { class: "card", "data-key": `job-${id}`, "data-job": data.job_id, "data-job-state": data.state },
    h("div", { class: "head" }, h("h2", { class: "id" }, data.job_id), stateOf(data),
      isOpen(data) && mayChange() && h("div", { class: "buttons" },
        h("button", { type: "button", "data-do": "cancelJob", "data-job-id": data.job_id }, t("do.cancel_job")))),
    failure && h("div", { class: "problem" }, h("h3", {}, t(data.code === "empty" ? "job.empty" : "job.error")),
      h("p", {}, codeLink(data.code), " ", data.detail ?? "")),
    h("dl", { class: "facts" },
      data.direction && fact(t("j.direction"), pairLink(data.direction)),
      fact(t("job.session"), sessionLink(data.session_id, data.tenant, true)),
      fact(t("s.tenant"), h("a", { href: jobsHref({ tenant: data.tenant }) }, data.tenant)),
      data.tts !== undefined && fact(t("job.output"), t(data.tts ? "job.spoken" : "job.text")),
      times && fact(t("job.handed"), clock(times.created_ms)),
      times && fact(t("job.ended"), ended ? `${clock(ended)} · ${t("job.total", { ms: span(ended - times.created_ms) })}` : t("job.running")),
      times && times.waited_ms > 0 && fact(t("kpi.waiting"), t("job.waited", { ms: span(times.waited_ms) })),
      data.state === "CANCELLED" && data.detail && fact(t("job.reason"), reason(data.detail)),
      data.instance && fact(t("d.instance"), h("a", { href: "#/instances" }, data.instance)),
      data.trace_id && fact(t("job.trace"), h("span", { class: "id" }, data.trace_id)),
      fact(t("job.node_id"), h("span", { class: "id", "data-node-job": data.node_job_id }, data.node_job_id)),
      data.notes.length > 0 && fact(t("job.notes"), data.notes.join(" "))),
    h("h3", {}, t("job.timeline")),
    data.attempts.length === 0 ? h("p", { class: "empty" }, t("job.none")) : timeline(data))];
}

function timeline(data) {
  const times = data.timings;
  if (!times) return h("ol", { class: "timeline" }, data.attempts.map((one) => h("li", { "data-key": one.number, "data-attempt": one.number }, named(one))));
  const last = Math.max(...data.attempts.map((one) => one.ended_ms || one.acked_ms || one.sent_ms), times.ended_ms || 0);
  const width = Math.max(1, last - times.created_ms);
  const share = (ms) => (1000 * (ms - times.created_ms)) / width;
  return h("ol", { class: "timeline" }, data.attempts.map((one) => {
    const tone = toneOf(one.outcome);
    const steps = [[t("job.sent"), one.sent_ms], [t("job.acked"), one.acked_ms], [t("job.ended"), one.ended_ms]];
    return h("li", { "data-key": one.number, "data-attempt": one.number, "data-outcome": one.outcome || "" },
      h("div", { class: "what" }, named(one), " ", h("code", { class: tone }, one.outcome || t("job.running"))),
      track(share(one.sent_ms), share(one.acked_ms ?? one.sent_ms), share(one.ended_ms ?? last), tone),
      h("p", { class: "note num" }, steps.filter(([, ms]) => ms).map(([name, ms]) => `${name} +${span(ms - times.created_ms)}`).join("  ·  ")));
  }));
}

// A copy that was not needed any more has not failed.
const CALM = ["other_copy_won", "cancelled", "JOB_CANCELLED"];
const toneOf = (outcome) => (outcome === undefined || outcome === "ok" ? "good" : CALM.includes(outcome) ? "calm" : "bad");

const named = (attempt) => h("strong", {}, t("job.attempt", { n: attempt.number }), " ", nodeLink(attempt.node_id));

function track(sent, acked, end, tone) {
  const bars = [["ground", 0, 1000], ["sent", sent, acked], [tone, acked, end]];
  return s("svg", { viewBox: "0 0 1000 14", preserveAspectRatio: "none", class: "track", "aria-hidden": "true" },
    bars.map(([kind, from, to]) => s("rect", { x: from, y: 0, width: Math.max(kind === "sent" ? 0 : 3, to - from), height: 14, rx: 3, class: kind })));
}
