//! Drawings for the page, as SVG.

use super::html::escaped;
use crate::exhibit::Line;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 220.0;
/// What the numbers beside lines take, and half a dot.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 6.0;

/// A bar for each stretch of time, which tells its count when it is pointed at.
pub(super) fn histogram(step_ms: u64, counts: &[u64]) -> String {
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let width = WIDTH / counts.len().max(1) as f64;
    let bars: String = (0_u32..)
        .zip(counts)
        .map(|(index, count)| {
            let height = HEIGHT * *count as f64 / most as f64;
            format!(
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\"><title>{count} at {} ms</title></rect>",
                f64::from(index) * width,
                HEIGHT - height,
                (width - 1.0).max(0.5),
                u64::from(index) * step_ms,
            )
        })
        .collect();
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\">{bars}<text x=\"0\" y=\"{:.0}\">0 ms</text>\
         <text x=\"{WIDTH}\" y=\"{:.0}\" text-anchor=\"end\">{} ms; the longest bar is {most}</text></svg>\n",
        HEIGHT + 20.0,
        HEIGHT + 16.0,
        HEIGHT + 16.0,
        step_ms * counts.len() as u64,
    )
}

/// A bar for each thing, one below the other, with its name before and its number behind it.
pub(super) fn bars(bars: &[(String, u64)]) -> String {
    const NAME_WIDTH: f64 = 300.0;
    const BAR_WIDTH_MAX: f64 = WIDTH - NAME_WIDTH - 80.0;
    const STEP: f64 = 26.0;
    let most = bars.iter().map(|(_, number)| *number).max().unwrap_or(0).max(1);
    let drawn: String = (0_u32..)
        .zip(bars)
        .map(|(index, (name, number))| {
            let (top, width) = (f64::from(index) * STEP, BAR_WIDTH_MAX * *number as f64 / most as f64);
            let baseline = top + 15.0;
            format!(
                "<text x=\"0\" y=\"{baseline:.0}\">{}</text>\
                 <rect x=\"{NAME_WIDTH}\" y=\"{top:.0}\" width=\"{width:.1}\" height=\"20\"/>\
                 <text x=\"{:.1}\" y=\"{baseline:.0}\">{number}</text>",
                escaped(name),
                NAME_WIDTH + width + 6.0,
            )
        })
        .collect();
    format!("<svg viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\">{drawn}</svg>\n", STEP * bars.len() as f64)
}

/// A line for each thing, each step upwards ten times as much as the one below. A point tells its value when it is pointed at.
pub(super) fn lines(across: &str, places: &[u64], lines: &[Line]) -> String {
    let scale = Scale::of(places, lines);
    let drawn: String = lines
        .iter()
        .zip(COLOURS.iter().cycle())
        .map(|(line, colour)| scale.line(places, line, colour))
        .collect();
    let names: String = (0_u32..)
        .zip(lines)
        .zip(COLOURS.iter().cycle())
        .map(|((index, line), colour)| {
            let left = LEFT + f64::from(index) * 160.0;
            format!("<text x=\"{left:.0}\" y=\"-20\" fill=\"{colour}\">{}</text>", escaped(&line.name))
        })
        .collect();
    format!(
        "<svg viewBox=\"0 -36 {WIDTH} {:.0}\" role=\"img\">{}{drawn}{names}<text x=\"{LEFT}\" y=\"{:.0}\">0</text>\
         <text x=\"{WIDTH}\" y=\"{:.0}\" text-anchor=\"end\">{}: {}</text></svg>\n",
        HEIGHT + 56.0,
        scale.tens(),
        HEIGHT + 16.0,
        HEIGHT + 16.0,
        escaped(across),
        places.iter().max().unwrap_or(&0),
    )
}

/// Where values are in a drawing.
struct Scale {
    farthest: f64,
    /// The powers of ten at the bottom and at the top.
    bottom: i32,
    top: i32,
}

impl Scale {
    fn of(places: &[u64], lines: &[Line]) -> Self {
        let values = || lines.iter().flat_map(|line| &line.values).copied().filter(|value| *value > 0.0);
        let bottom = values().fold(f64::INFINITY, f64::min).min(1.0).log10().floor() as i32;
        let top = values().fold(0.0, f64::max).max(1.0).log10().ceil() as i32;
        let farthest = places.iter().copied().max().unwrap_or(0).max(1) as f64;
        Self { farthest, bottom, top: top.max(bottom + 1) }
    }

    fn x(&self, place: u64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * place as f64 / self.farthest
    }

    fn y(&self, value: f64) -> f64 {
        let power = value.max(10_f64.powi(self.bottom)).log10();
        HEIGHT * (f64::from(self.top) - power) / f64::from(self.top - self.bottom)
    }

    fn line(&self, places: &[u64], line: &Line, colour: &str) -> String {
        let points: Vec<_> = places.iter().map(|place| self.x(*place)).zip(&line.values).collect();
        let path: Vec<_> = points.iter().map(|(x, value)| format!("{x:.1},{:.1}", self.y(**value))).collect();
        let dots: String = points
            .iter()
            .map(|(x, value)| {
                let y = self.y(**value);
                format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"><title>{value}</title></circle>")
            })
            .collect();
        format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>{dots}",
            path.join(" ")
        )
    }

    /// A thin line at each power of ten.
    fn tens(&self) -> String {
        (self.bottom..=self.top)
            .map(|power| {
                let (value, y) = (10_f64.powi(power), self.y(10_f64.powi(power)));
                format!(
                    "<line x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
                     <text x=\"0\" y=\"{:.1}\">{value}</text>",
                    y + 4.0
                )
            })
            .collect()
    }
}

const COLOURS: [&str; 4] = ["#b3261e", "#b8860b", "#3b6ea5", "#2e7d32"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_times_as_much_is_one_step_higher() {
        let scale = Scale::of(&[0, 100], &[line(&[0.1, 100.0])]);
        assert_eq!((scale.bottom, scale.top), (-1, 2));
        assert_eq!([0.1, 1.0, 10.0, 100.0].map(|value| scale.y(value).round()), [220.0, 147.0, 73.0, 0.0]);
        assert_eq!(
            [0, 50, 100].map(|place| scale.x(place)),
            [LEFT, (LEFT + WIDTH - RIGHT) / 2.0, WIDTH - RIGHT]
        );
    }

    #[test]
    fn what_took_no_time_is_at_the_bottom() {
        let scale = Scale::of(&[0], &[line(&[0.0])]);
        assert_eq!(scale.y(0.0), HEIGHT);
    }

    #[test]
    fn names_are_shown_as_they_are() {
        let drawn = lines("depth", &[0, 1], &[line(&[1.0, 2.0])]) + &bars(&[("id > cursor".to_owned(), 3)]);
        assert_eq!(drawn.matches("id &gt; cursor").count(), 2, "{drawn}");
        assert_eq!(drawn.matches("<circle").count(), 2);
    }

    fn line(values: &[f64]) -> Line {
        Line { name: "id > cursor".to_owned(), values: values.to_vec() }
    }
}
