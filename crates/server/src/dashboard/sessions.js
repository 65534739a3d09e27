// Sessions: who is connected, and one of them with its jobs. What is said is not shown.

import { h } from "./dom.js";
import { table } from "./jobs.js";
import { mayChange } from "./line.js";
import { jobsHref, pairLink, sessionLink, sessionsHref } from "./links.js";
import { fact, failed } from "./nodes.js";
import { clock, number, span, t } from "./words.js";

export const FILTERS = ["instance", "tenant"];
const JOB_COLUMNS = ["when", "job", "state", "direction", "node", "took", "tries"];

const client = (one) => h("span", { class: `state ${one.connected ? "ready" : "draining"}` }, t(one.connected ? "s.here" : "s.away"));

export function list(state) {
  const { data, error, filter } = state.sessions;
  if (error && !data) return [failed(error)];
  if (!data) return [h("p", { class: "loading", role: "status" }, t("loading"))];
  const given = FILTERS.filter((name) => filter[name]);
  return [h("section", { class: "card", "data-key": "sessions" },
    h("div", { class: "head" }, h("h2", {}, t("sessions")),
      h("span", { class: "note" }, t("sessions.shown", { n: number(data.sessions.length), all: number(data.total) })),
      given.map((name) => h("span", { class: "chip", "data-key": name }, `${t(`s.${name}`)}: ${filter[name]}`)),
      given.length > 0 && h("a", { "data-key": "all", href: "#/sessions" }, t("sessions.all"))),
    data.silent.map((id) => h("p", { class: "problem", "data-silent": id }, t("sessions.silent", { id }))),
    data.sessions.length === 0
      ? h("div", { class: "empty" }, h("p", {}, t("sessions.empty")), h("pre", {}, "lingua speak --signal 3s --sentences 5"))
      : h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": t("sessions") },
        h("table", { class: "list stack" },
          h("thead", {}, h("tr", {}, ["id", "direction", "client", "instance", "utterances", "since", "tenant"].map((name) =>
            h("th", { scope: "col" }, t(`s.${name}`))))),
          h("tbody", {}, data.sessions.map((one) => h("tr", { "data-key": `${one.session_id} ${one.instance}`, "data-session": one.session_id },
            h("th", { scope: "row", class: "id" }, sessionLink(one.session_id, one.tenant, true)),
            h("td", { "data-label": t("s.direction") }, pairLink(one.direction)),
            h("td", { "data-label": t("s.client") }, client(one)),
            h("td", { "data-label": t("s.instance") }, h("a", { href: sessionsHref({ instance: one.instance }) }, one.instance)),
            h("td", { class: "num", "data-label": t("s.utterances") }, number(one.utterances)),
            h("td", { class: "num", "data-label": t("s.since") }, clock(one.since_ms)),
            h("td", { "data-label": t("s.tenant") }, h("a", { href: sessionsHref({ tenant: one.tenant }) }, one.tenant))))))),
    data.next && h("button", { type: "button", class: "more", "data-do": "more" }, t("nodes.next")))];
}

export function one(state) {
  const { data, error, id, tenant, jobs } = state.session;
  const back = h("p", { "data-key": "back" }, h("a", { href: "#/sessions" }, "← ", t("sessions")));
  if (error && error !== "NOT_FOUND") return [back, failed(error)];
  if (!data && !error) return [back, h("p", { class: "loading", role: "status" }, t("loading"))];
  const known = data && h("dl", { class: "facts" },
    fact(t("s.direction"), pairLink(data.direction)),
    fact(t("s.tenant"), h("a", { href: sessionsHref({ tenant: data.tenant }) }, data.tenant)),
    fact(t("s.instance"), h("a", { href: sessionsHref({ instance: data.instance }) }, data.instance)),
    fact(t("s.utterances"), number(data.utterances)),
    fact(t("s.since"), `${clock(data.since_ms)} · ${span(Math.max(0, (state.stats?.now_ms ?? Date.now()) - data.since_ms))}`));
  const wanted = { session: id, tenant: data?.tenant ?? tenant };
  return [back,
    h("section", { class: "card", "data-key": `session-${id}`, "data-one-session": id },
      h("div", { class: "head" }, h("h2", { class: "id" }, id), data && client(data),
        data && mayChange() && h("div", { class: "buttons" },
          h("button", { type: "button", "data-do": "disconnect", "data-session-id": id, "data-tenant": data.tenant }, t("do.disconnect")))),
      known || h("p", { class: "empty" }, t("session.gone"))),
    h("section", { class: "card", "data-key": "session-jobs" },
      h("div", { class: "head" }, h("h2", {}, t("session.jobs")),
        jobs?.data && h("a", { class: "note", href: jobsHref(wanted) }, t("jobs.shown", { n: number(jobs.data.jobs.length), all: number(jobs.data.total) }))),
      !jobs?.data ? h("p", { class: "loading", role: "status" }, t("loading"))
        : jobs.data.jobs.length === 0 ? h("p", { class: "empty" }, t("session.jobs.empty"))
          : table(jobs.data.jobs, JOB_COLUMNS, t("session.jobs")))];
}
