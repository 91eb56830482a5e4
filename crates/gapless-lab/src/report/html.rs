//! The report as one page: no script, nothing loaded from elsewhere.

use std::fmt::Write as _;

use super::drawing;
use super::{Judged, Report};
use crate::exhibit::{Exhibit, cells_of_lines};

const STYLE: &str = "
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1c1c1c; }
table { border-collapse: collapse; width: 100%; margin: 0.5rem 0 2rem; }
th, td { text-align: left; padding: 0.3rem 0.6rem; border-bottom: 1px solid #ddd; vertical-align: top; }
td.value { font-family: ui-monospace, monospace; }
.control { color: #666; }
svg { width: 100%; fill: #3b6ea5; font-size: 14px; }
tr.differs td { background: #fde8e8; }
";

pub(super) fn page(report: &Report) -> String {
    let title = escaped(&format!("gapless-lab: {} on {}", report.suite, report.store));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<p>{}</p>\n",
        escaped(&report.summary())
    );
    for judged in &report.experiments {
        add_experiment(&mut page, judged);
    }
    page.push_str("</body>\n</html>\n");
    page
}

fn add_experiment(page: &mut String, judged: &Judged) {
    let control = if judged.finding.is_control {
        " <span class=\"control\">(negative control: the strategy must fail)</span>"
    } else {
        ""
    };
    let mut section = format!(
        "<h2>{}{control}</h2>\n<p>{}</p>\n<table>\n\
         <tr><th>what</th><th>expected</th><th>observed</th><th>verdict</th></tr>\n",
        escaped(judged.finding.name),
        escaped(judged.finding.claim)
    );
    for row in judged.rows() {
        let class = if row.holds { "" } else { " class=\"differs\"" };
        let [what, expected, observed] = [&row.what, &row.expected, &row.observed].map(|text| escaped(text));
        writeln!(
            section,
            "<tr{class}><td>{what}</td><td class=\"value\">{expected}</td>\
             <td class=\"value\">{observed}</td><td>{}</td></tr>",
            row.verdict
        )
        .expect("writing to a string can't fail");
    }
    page.push_str(&section);
    page.push_str("</table>\n");
    for exhibit in &judged.finding.exhibits {
        add_exhibit(page, exhibit);
    }
}

fn add_exhibit(page: &mut String, exhibit: &Exhibit) {
    let (title, content) = match exhibit {
        Exhibit::Table { title, heading, rows } => (title, table(heading, rows)),
        Exhibit::Histogram { title, step_ms, counts } => (title, drawing::histogram(*step_ms, counts)),
        Exhibit::Bars { title, bars } => (title, drawing::bars(bars)),
        Exhibit::Lines { title, across, places, lines } => {
            let (heading, rows) = cells_of_lines(across, places, lines);
            (title, drawing::lines(across, places, lines) + &table(&heading, &rows))
        }
    };
    page.push_str(&format!("<h3>{}</h3>\n{content}", escaped(title)));
}

fn table(heading: &[String], rows: &[Vec<String>]) -> String {
    let row = |cells: &[String], tag: &str| {
        let cells: String = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let body: String = rows.iter().map(|cells| row(cells, "td")).collect();
    format!("<table>\n{}{body}</table>\n", row(heading, "th"))
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
