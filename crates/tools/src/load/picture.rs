//! Latency over time, drawn as SVG. Greys and colours that can be read on white and on black.

use std::fmt::Write as _;

use lingua_lab::meter::{Percentiles, Point};

const WIDTH: f64 = 900.0;
const PANEL: f64 = 220.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 60.0;
const GAP: f64 = 60.0;
const GREY: &str = "#808080";

/// One line of a panel.
struct Series {
    name: &'static str,
    colour: &'static str,
    of: fn(&Point) -> Percentiles,
}

/// Latencies over time, by decades of milliseconds.
struct Panel {
    title: &'static str,
    series: &'static [Series],
}

const PANELS: [Panel; 2] = [
    Panel {
        title: "added by the scheduler",
        series: &[
            Series {
                name: "final to the node's socket",
                colour: "#3d8fd1",
                of: |point| point.to_node_ms,
            },
            Series {
                name: "node's result to the speaker",
                colour: "#d9822b",
                of: |point| point.to_speaker_ms,
            },
        ],
    },
    Panel {
        title: "whole, with the node's own time",
        series: &[Series {
            name: "final to the ending",
            colour: "#4aa564",
            of: |point| point.whole_ms,
        }],
    },
];

/// A place on the picture.
struct Scale {
    last_second: f64,
    /// Powers of ten of the least and the most.
    decades: (i32, i32),
    bottom: f64,
}

/// The picture of these seconds.
pub(super) fn draw(points: &[Point], title: &str) -> String {
    let height = TOP + PANELS.len() as f64 * (PANEL + GAP);
    let mut svg = String::new();
    put(
        &mut svg,
        format_args!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12" fill="{GREY}">"#
        ),
    );
    text(&mut svg, LEFT, 24.0, "start", &format!("Latency: {title}"));
    for (number, panel) in PANELS.iter().enumerate() {
        let top = TOP + number as f64 * (PANEL + GAP);
        panel.draw(&mut svg, points, top);
    }
    svg.push_str("</svg>\n");
    svg
}

impl Panel {
    fn draw(&self, svg: &mut String, points: &[Point], top: f64) {
        let scale = Scale::of(self, points, top + PANEL);
        scale.axes(svg, self.title, top);
        let mut x = LEFT + 10.0;
        for series in self.series {
            scale.line(svg, points, series, |times| times.p50, "");
            scale.line(svg, points, series, |times| times.p99, r#" stroke-dasharray="5 3""#);
            let Series { name, colour, .. } = series;
            put(
                svg,
                format_args!(
                    r#"<text x="{x}" y="{}" fill="{colour}">{name}: p50 solid, p99 dashed</text>"#,
                    top + 14.0
                ),
            );
            x += 330.0;
        }
    }
}

impl Scale {
    fn of(panel: &Panel, points: &[Point], bottom: f64) -> Self {
        let times = || points.iter().flat_map(|point| panel.series.iter().map(|s| (s.of)(point)));
        let most = times().map(|times| times.p99).fold(1.0, f64::max);
        let least = times().map(|times| times.p50).filter(|ms| *ms > 0.0).fold(most, f64::min);
        let decades = (least.log10().floor() as i32, most.log10().ceil() as i32);
        let decades = (decades.0, decades.1.max(decades.0 + 1));
        let last_second = points.last().map_or(1.0, |point| point.second as f64).max(1.0);
        Self { last_second, decades, bottom }
    }

    fn x(&self, second: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * second / self.last_second
    }

    fn y(&self, ms: f64) -> f64 {
        let (least, most) = (f64::from(self.decades.0), f64::from(self.decades.1));
        let part = ((ms.max(1e-6).log10() - least) / (most - least)).clamp(0.0, 1.0);
        self.bottom - PANEL * part
    }

    fn axes(&self, svg: &mut String, title: &str, top: f64) {
        text(svg, LEFT, top - 8.0, "start", title);
        text(svg, LEFT - 8.0, top - 8.0, "end", "ms");
        for decade in self.decades.0..=self.decades.1 {
            let ms = 10_f64.powi(decade);
            let y = self.y(ms);
            line(svg, (LEFT, y), (WIDTH - RIGHT, y), 0.3);
            text(svg, LEFT - 8.0, y + 4.0, "end", &format!("{ms}"));
        }
        let step = nice_step(self.last_second);
        let mut second = 0.0;
        while second <= self.last_second {
            let x = self.x(second);
            line(svg, (x, self.bottom), (x, self.bottom + 4.0), 1.0);
            text(svg, x, self.bottom + 18.0, "middle", &format!("{second} s"));
            second += step;
        }
        line(svg, (LEFT, self.bottom), (WIDTH - RIGHT, self.bottom), 1.0);
        line(svg, (LEFT, top), (LEFT, self.bottom), 1.0);
    }

    fn line(
        &self,
        svg: &mut String,
        points: &[Point],
        series: &Series,
        of: fn(Percentiles) -> f64,
        dashes: &str,
    ) {
        let mut path = String::new();
        for point in points {
            let times = (series.of)(point);
            if times.count > 0 {
                let (x, y) = (self.x(point.second as f64), self.y(of(times)));
                put(&mut path, format_args!("{x:.1},{y:.1} "));
            }
        }
        put(
            svg,
            format_args!(
                r#"<polyline points="{}" fill="none" stroke="{}" stroke-width="1.5"{dashes}/>"#,
                path.trim_end(),
                series.colour
            ),
        );
    }
}

/// About ten marks on an axis, at round numbers.
fn nice_step(length: f64) -> f64 {
    let rough = (length / 10.0).max(1.0);
    let decade = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
    steps.into_iter().find(|step| *step >= rough).unwrap_or(rough)
}

fn line(svg: &mut String, from: (f64, f64), to: (f64, f64), opacity: f64) {
    let ((x1, y1), (x2, y2)) = (from, to);
    put(
        svg,
        format_args!(
            r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" stroke="{GREY}" stroke-opacity="{opacity}"/>"#
        ),
    );
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    put(svg, format_args!(r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#));
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("memory takes all that is written");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(second: u64, ms: f64) -> Point {
        let times = Percentiles { count: 1, p50: ms, p90: ms, p99: ms * 3.0, max: ms * 4.0 };
        let (to_node_ms, to_speaker_ms, whole_ms) = (times, times, times);
        Point { second, utterances: 1, sessions: 1, to_node_ms, to_speaker_ms, whole_ms }
    }

    #[test]
    fn a_picture_is_one_document_with_a_line_for_each_percentile() {
        let points: Vec<_> = (0..60).map(|second| point(second, 0.5 + second as f64)).collect();
        let svg = draw(&points, "1 < 2 & 3");
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("<polyline").count(), 6);
        assert!(svg.contains("1 &lt; 2 &amp; 3"));
        assert!(svg.contains(">50 s<") && svg.contains(">100<") && svg.contains(">ms<"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn nothing_measured_and_one_second_are_drawn_too() {
        for points in [vec![], vec![point(0, 0.0)], vec![point(7, 1e9)]] {
            let svg = draw(&points, "");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn higher_is_slower_and_right_is_later() {
        let points = [point(0, 1.0), point(10, 100.0)];
        let scale = Scale::of(&PANELS[1], &points, 300.0);
        assert!(scale.y(100.0) < scale.y(1.0) && scale.x(10.0) > scale.x(0.0));
        assert_eq!(scale.x(10.0), WIDTH - RIGHT);
        assert_eq!((nice_step(60.0), nice_step(3.0), nice_step(3_600.0)), (10.0, 1.0, 500.0));
    }
}
