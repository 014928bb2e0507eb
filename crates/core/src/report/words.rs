//! Formatting of numbers and of untrusted names.

use std::cmp::Ordering;

use crate::metrics::Better;
use crate::results::Interval;

/// The text of an undefined number.
pub const UNDEFINED: &str = "–";

/// A number with about three significant digits.
pub fn short(value: f64) -> String {
    if !value.is_finite() {
        return UNDEFINED.into();
    }
    // Adding zero turns a negative zero into a plain one.
    let (value, size) = (value + 0.0, value.abs());
    let text = match size {
        _ if size > 0.0 && size < 0.0005 => format!("{value:.1e}"),
        _ if size < 10.0 => format!("{value:.3}"),
        _ if size < 100.0 => format!("{value:.2}"),
        _ if size < 1000.0 => format!("{value:.1}"),
        _ if size < 1e7 => format!("{value:.0}"),
        _ => format!("{value:.2e}"),
    };
    text.replace('-', "−")
}

/// A number with two decimals.
pub fn brief(value: f64) -> String {
    let rounded = (value * 100.0).round() / 100.0;
    match value.is_finite() {
        false => UNDEFINED.into(),
        // Avoids the "−0.00" of a small negative number.
        true if rounded == 0.0 => "0.00".into(),
        true => format!("{rounded:.2}").replace('-', "−"),
    }
}

/// A number without trailing zeros, such as a parameter or a count.
pub fn plain(value: f64) -> String {
    if !value.is_finite() {
        return UNDEFINED.into();
    }
    if value == value.trunc() && value.abs() < 1e15 {
        return format!("{value:.0}").replace('-', "−");
    }
    let text = short(value);
    if text.contains('.') && !text.contains('e') {
        return text.trim_end_matches('0').trim_end_matches('.').into();
    }
    text
}

/// The direction of better values.
pub fn arrow(better: Better) -> &'static str {
    match better {
        Better::Higher => " ↑",
        Better::Lower => " ↓",
        Better::Neither => "",
    }
}

/// An interval, from low to high.
pub fn interval(interval: Interval) -> String {
    let between = if interval.low < 0.0 || interval.high < 0.0 { " to " } else { "–" };
    format!("{}{between}{}", short(interval.low), short(interval.high))
}

/// An untrusted text with control characters and bidirectional marks replaced by U+FFFD, and line breaks by spaces.
pub fn tidy(text: &str) -> String {
    let unsafe_char = |c: char| {
        (c.is_control() && c != '\n')
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}')
    };
    text.chars().map(|c| if unsafe_char(c) { '\u{fffd}' } else { c }).map(|c| if c == '\n' { ' ' } else { c }).collect()
}

/// At most `length` characters; a longer text ends with an ellipsis.
pub fn shorten(text: &str, length: usize) -> String {
    if text.chars().count() <= length {
        return text.into();
    }
    text.chars().take(length.saturating_sub(1)).chain(['…']).collect()
}

/// A name for a file or an anchor: lower-case letters, digits and dashes.
pub fn slug(text: &str) -> String {
    let mut slug = String::new();
    for c in text.chars().take(60) {
        match c {
            'a'..='z' | '0'..='9' => slug.push(c),
            'A'..='Z' => slug.push(c.to_ascii_lowercase()),
            _ if slug.ends_with('-') || slug.is_empty() => {}
            _ => slug.push('-'),
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "unnamed".into() } else { slug.into() }
}

/// Natural order: `sae-9` comes before `sae-16`.
pub fn natural(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    while let (Some(x), Some(y)) = (left.chars().next(), right.chars().next()) {
        if x.is_ascii_digit() && y.is_ascii_digit() {
            let (first, rest_left) = digits(left);
            let (second, rest_right) = digits(right);
            let order = first.len().cmp(&second.len()).then(first.cmp(second));
            if order != Ordering::Equal {
                return order;
            }
            (left, right) = (rest_left, rest_right);
        } else if x != y {
            return x.cmp(&y);
        } else {
            (left, right) = (&left[x.len_utf8()..], &right[y.len_utf8()..]);
        }
    }
    left.len().cmp(&right.len()).then(a.cmp(b))
}

/// The leading digits without leading zeros, and the rest.
fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (text[..end].trim_start_matches('0'), &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let cases = [
            (0.0, "0.000"),
            (-0.0, "0.000"),
            (0.41273, "0.413"),
            (-0.03, "−0.030"),
            (12.345, "12.35"),
            (123.45, "123.5"),
            (4096.0, "4096"),
        ];
        for (value, text) in cases {
            assert_eq!(short(value), text);
        }
        assert_eq!(short(0.00012), "1.2e−4");
        assert_eq!(short(f64::NAN), "–");
        assert_eq!((brief(-0.001).as_str(), brief(0.996).as_str()), ("0.00", "1.00"));
        assert_eq!((plain(0.5), plain(3.0), plain(0.25)), ("0.5".into(), "3".into(), "0.25".into()));
    }

    #[test]
    fn untrusted_names_are_sanitised() {
        assert_eq!(tidy("a\u{1b}[31m\u{202e}b\nc"), "a\u{fffd}[31m\u{fffd}b c");
        assert_eq!(slug("../<Top K>/é"), "top-k");
        assert_eq!(slug("///"), "unnamed");
        assert_eq!(shorten("ästhetik", 4), "äst…");
    }

    #[test]
    fn names_with_numbers_are_ordered_by_the_number() {
        let mut names = ["sae-16", "sae-9", "sae-128", "sae", "sae-9b", "sae-09"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["sae", "sae-09", "sae-9", "sae-9b", "sae-16", "sae-128"]);
    }
}
