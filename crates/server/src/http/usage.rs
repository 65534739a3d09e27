//! What was used, by day.

use std::fmt::Write;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use lingua_core::Moment;
use lingua_core::usage::{Day, DayUsage, KEPT_DAYS, Spoken, Worked};
use lingua_engine::Engine;
use lingua_engine::job::store_down;
use serde::Serialize;
use tokio::sync::Semaphore;
use utoipa::ToSchema;

use super::accept::wants_csv;
use super::error::{Answer, Refused, refusals};
use super::query::Params;
use crate::wire::http::wrong;

refusals!(UsageRefusals: InvalidMessage, SchedulerDependencyDown);

/// Days told if nobody says from when.
const DAYS: u32 = 7;

/// The store is read by one reader at a time.
static READING: Semaphore = Semaphore::const_new(1);

/// By what the counts are told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Pair,
    Tenant,
    Service,
    Model,
    Node,
}

/// What was used.
#[derive(Serialize, ToSchema)]
pub(crate) struct UsageBody {
    /// The first day.
    #[schema(example = "2026-11-13")]
    from: String,
    /// The last day.
    #[schema(example = "2026-11-19")]
    to: String,
    /// `pair`, `tenant`, `service`, `model` or `node`.
    by: &'static str,
    /// Every day, the oldest first.
    days: Vec<UsageDay>,
}

/// One day of UTC.
#[derive(Serialize, ToSchema)]
struct UsageDay {
    /// Its date.
    #[schema(example = "2026-11-19")]
    day: String,
    /// Most people with a session at the same time.
    people: u64,
    /// By name.
    rows: Vec<UsageRow>,
}

/// What was counted for one pair, tenant, service, model or node on a day. What is beyond the rows that are kept has the
/// name `other`.
#[derive(Serialize, ToSchema)]
struct UsageRow {
    /// The pair, tenant, service, model or node.
    #[schema(example = "zh->en")]
    name: String,
    /// Sentences that became a job which ended; by pair and tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    sentences: Option<u64>,
    /// Jobs that were answered; by service, model and node.
    #[serde(skip_serializing_if = "Option::is_none")]
    jobs: Option<u64>,
    /// Speech, in seconds, as far as its length is known.
    speech_s: f64,
    /// Sentences by how they ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    endings: Option<UsageEndings>,
    /// Attempts that failed; by service, model and node.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<u64>,
}

/// Sentences by how they ended.
#[derive(Serialize, ToSchema)]
struct UsageEndings {
    /// With a result.
    result: u64,
    /// Nothing was said.
    empty: u64,
    /// Without a result.
    failed: u64,
    /// Nobody wanted it any more.
    cancelled: u64,
}

/// What was used
///
/// By day of UTC, for 31 days, on all instances together, as JSON or, with `format=csv` or `Accept: text/csv`, as CSV. What
/// a process counted in the second before it was killed is missing.
#[utoipa::path(
    get, path = "/api/v1/usage", operation_id = "get_usage", tag = "admin",
    params(
        ("from" = Option<String>, Query, description = "The first day, such as `2026-11-13`; six days before `to` if absent"),
        ("to" = Option<String>, Query, description = "The last day; today if absent"),
        ("by" = Option<String>, Query, description = "`pair` (if absent), `tenant`, `service`, `model` or `node`"),
        ("format" = Option<String>, Query, description = "`json` or `csv`; by `Accept` if absent"),
    ),
    responses((status = 200, description = "What was used", content(
        (UsageBody = "application/json"), (String = "text/csv")
    )), UsageRefusals)
)]
pub(crate) async fn usage(
    State(engine): State<Engine>,
    params: Params,
    headers: HeaderMap,
) -> Answer {
    let today = Day::of(Moment::from_millis(engine.now_ms()));
    let to = params.get::<Day>("to")?.unwrap_or(today);
    let first = Day(to.0.saturating_sub(DAYS - 1));
    let from = params.get::<Day>("from")?.unwrap_or(first);
    if from > to || to.0 - from.0 >= KEPT_DAYS {
        let sentence = format!("is at most {} days before to, and not after it", KEPT_DAYS - 1);
        return Err(wrong("from", sentence).into());
    }
    let words = [
        ("pair", By::Pair),
        ("tenant", By::Tenant),
        ("service", By::Service),
        ("model", By::Model),
        ("node", By::Node),
    ];
    let by = params.one_of("by", &words)?.unwrap_or(By::Pair);
    let csv = params.one_of("format", &[("json", false), ("csv", true)])?;
    let csv = csv.unwrap_or_else(|| wants_csv(&headers));
    let _turn = READING.acquire().await.expect("never closed");
    let days = engine.usage((from.0..=to.0).map(Day)).await;
    let days = days.map_err(|error| Refused(store_down(&error)))?;
    let by_name = words.iter().find(|(_, one)| *one == by).map_or("", |(name, _)| name);
    let days = days.into_iter().map(|(day, counts)| UsageDay {
        day: day.to_string(),
        people: counts.people,
        rows: rows(&counts, by),
    });
    let body =
        UsageBody { from: from.to_string(), to: to.to_string(), by: by_name, days: days.collect() };
    if !csv {
        return Ok(Json(body).into_response());
    }
    Ok(([(header::CONTENT_TYPE, "text/csv; charset=utf-8; header=present")], body.csv())
        .into_response())
}

fn rows(counts: &DayUsage, by: By) -> Vec<UsageRow> {
    match by {
        By::Pair => spoken(counts.spoken_by(|(pair, _)| pair)),
        By::Tenant => spoken(counts.spoken_by(|(_, tenant)| tenant)),
        By::Service => worked(counts.worked_by(|(service, ..)| service)),
        By::Model => worked(counts.worked_by(|(_, model, _)| model)),
        By::Node => worked(counts.worked_by(|(.., node)| node)),
    }
}

fn spoken<'a>(sums: impl IntoIterator<Item = (&'a str, Spoken)>) -> Vec<UsageRow> {
    let row = |(name, count): (&str, Spoken)| UsageRow {
        name: name.to_owned(),
        sentences: Some(count.sentences),
        jobs: None,
        speech_s: seconds(count.speech_ms),
        endings: Some(UsageEndings {
            result: count.results,
            empty: count.empty,
            failed: count.failed,
            cancelled: count.cancelled,
        }),
        failed: None,
    };
    sums.into_iter().map(row).collect()
}

fn worked<'a>(sums: impl IntoIterator<Item = (&'a str, Worked)>) -> Vec<UsageRow> {
    let row = |(name, count): (&str, Worked)| UsageRow {
        name: name.to_owned(),
        sentences: None,
        jobs: Some(count.jobs),
        speech_s: seconds(count.speech_ms),
        endings: None,
        failed: Some(count.failed),
    };
    sums.into_iter().map(row).collect()
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1_000.0
}

impl UsageBody {
    /// A line for every row, with the same columns whatever it is by.
    fn csv(&self) -> String {
        let by = self.by;
        let mut text =
            format!("day,{by},sentences,jobs,speech_s,result,empty,failed,cancelled\r\n");
        for (day, row) in
            self.days.iter().flat_map(|day| day.rows.iter().map(move |row| (day, row)))
        {
            let ending = |of: fn(&UsageEndings) -> u64| row.endings.as_ref().map(of);
            let columns = [
                row.sentences.map(|n| n.to_string()),
                row.jobs.map(|n| n.to_string()),
                Some(row.speech_s.to_string()),
                ending(|endings| endings.result).map(|n| n.to_string()),
                ending(|endings| endings.empty).map(|n| n.to_string()),
                ending(|endings| endings.failed).or(row.failed).map(|n| n.to_string()),
                ending(|endings| endings.cancelled).map(|n| n.to_string()),
            ];
            let _ = write!(text, "{},{}", day.day, quoted(&row.name));
            for column in columns {
                let _ = write!(text, ",{}", column.unwrap_or_default());
            }
            text.push_str("\r\n");
        }
        text
    }
}

/// A name as a cell (RFC 4180). One that a spreadsheet would take for a formula begins with a quote there.
fn quoted(name: &str) -> String {
    let formula = name.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let name = if formula { format!("'{name}") } else { name.to_owned() };
    if name.contains([',', '"', '\r', '\n']) {
        return format!("\"{}\"", name.replace('"', "\"\""));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_line_for_every_row_and_no_formula() {
        let mut counts = DayUsage::default();
        let said =
            Spoken { sentences: 3, speech_ms: 4_500, results: 2, failed: 1, ..Spoken::default() };
        counts.say(("zh->en".into(), "=1+1,\"x\"".into()), &said);
        let work = Worked { jobs: 2, speech_ms: 3_000, failed: 4 };
        counts.work(("asr".into(), "whisper@3".into(), "n".into()), &work);
        let csv = |by, name| {
            let day = UsageDay { day: "2026-11-19".into(), people: 1, rows: rows(&counts, by) };
            let (from, to) = (String::new(), String::new());
            UsageBody { from, to, by: name, days: vec![day] }.csv()
        };
        assert_eq!(
            csv(By::Pair, "pair"),
            "day,pair,sentences,jobs,speech_s,result,empty,failed,cancelled\r\n\
             2026-11-19,zh->en,3,,4.5,2,0,1,0\r\n"
        );
        assert!(
            csv(By::Tenant, "tenant")
                .ends_with("2026-11-19,\"'=1+1,\"\"x\"\"\",3,,4.5,2,0,1,0\r\n")
        );
        assert!(csv(By::Model, "model").ends_with("\r\n2026-11-19,whisper@3,,2,3,,,4,\r\n"));
    }
}
