//! Whether a completion is the right answer.

/// Which rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The published rule, mended.
    Mended,
    /// The released program.
    Released,
}

/// Largest difference of coordinates, in degrees.
const DEGREES: f64 = 2.0;

/// Whether labels of an attribute are names of time zones, which need today's offsets to be judged.
pub(super) fn is_time_zone(text: &str, label: &str) -> bool {
    text.contains("UTC") && label.contains('/')
}

/// Whether a completion of a text is the label.
pub(super) fn is_correct(rule: Rule, text: &str, label: &str, completion: &str) -> bool {
    let is_quote = |c: char| c == ' ' || c == '"';
    let before_quote = completion.split('"').next().unwrap_or_default().trim_matches(is_quote);
    let answer = before_quote.replace("\\/", "/").to_lowercase();
    let expected = label.to_lowercase();
    if label.is_empty() || answer.is_empty() {
        return false;
    }
    let is_prefix = if expected.chars().count() < answer.chars().count() {
        answer.starts_with(&expected)
    } else {
        expected.starts_with(&answer)
    };
    if ["coord", "latitude", "longitude"].iter().any(|word| text.contains(word)) {
        return is_close(&expected, &answer);
    }
    if label.contains("United States") || label.contains("United Kingdom") {
        return match rule {
            Rule::Released => {
                let [name, answer] = [label, completion].map(|text| text.trim().replace("the ", ""));
                answer.starts_with(&name) || answer.starts_with("England")
            }
            Rule::Mended => {
                let name = |text: &str| text.trim().to_lowercase().trim_start_matches("the ").to_string();
                let (name, answer) = (name(label), name(completion));
                answer.starts_with(&name) || (name.contains("kingdom") && answer.starts_with("england"))
            }
        };
    }
    if label.contains("South Korea") {
        return answer.starts_with("korea") || answer.starts_with("south korea");
    }
    if label.contains("North America") {
        return answer.contains(&expected) || answer == "na" || answer.starts_with("america");
    }
    if label.contains("Mandarin") {
        return match rule {
            Rule::Released => expected.contains(&answer) || answer == "chinese",
            Rule::Mended => is_prefix || answer.starts_with("chinese") || answer.starts_with("mandarin"),
        };
    }
    if text.contains("language") && expected.contains(',') {
        return expected.split(',').any(|language| match rule {
            Rule::Released => answer.contains(language),
            Rule::Mended => !language.trim().is_empty() && answer.contains(language.trim()),
        });
    }
    is_prefix && !is_time_zone(text, label)
}

/// Whether the first whole number of an answer is close to a coordinate; signs are ignored.
fn is_close(expected: &str, answer: &str) -> bool {
    let is_minus = |c: char| c == '-' || c == '−';
    let digits: String = answer.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    match (expected.trim_matches(is_minus).parse::<f64>(), digits.parse::<f64>()) {
        (Ok(expected), Ok(found)) => (expected - found).abs() <= DEGREES,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn the_released_rule_gives_the_golden_verdicts() {
        let path =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/interventions/ravel/judge.json");
        let golden: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let cases = golden["cases"].as_array().unwrap();
        assert!(cases.len() > 30);
        let mut mended = Vec::new();
        for case in cases {
            let [text, label, completion] = ["text", "label", "completion"].map(|key| case[key].as_str().unwrap());
            let verdict = is_correct(Rule::Released, text, label, completion);
            assert_eq!(Some(verdict), case["correct"].as_bool(), "{case}");
            if is_correct(Rule::Mended, text, label, completion) != verdict {
                mended.push((label, completion.trim(), !verdict));
            }
        }
        // What the profile `paper` judges differently, all of it.
        mended.sort_unstable();
        let expected = [
            ("German, French", "French", true),
            ("Mandarin", "a", false),
            ("United States", "England and", false),
            ("United States", "united states", true),
        ];
        assert_eq!(mended, expected);
    }

    #[test]
    fn answers_by_hand() {
        let both = |text: &str, label: &str, completion: &str| {
            [Rule::Mended, Rule::Released].map(|rule| is_correct(rule, text, label, completion))
        };
        assert_eq!(both("x", "Mandarin", " Mandarin Chinese"), [true, false]);
        assert_eq!(both("x", "Mandarin", " Chinese and"), [true, false]);
        assert_eq!(both("x", "United Kingdom", " England"), [true, true]);
        assert_eq!(both("x", "the United Kingdom", " The United Kingdom"), [true, false]);
        assert_eq!(both("latitude of", "-33.9", " 35.7"), [true, true]);
        assert_eq!(both("latitude of", "-33.9", " 36"), [false, false]);
        // Time zones are not judged.
        assert_eq!(both("the offset from UTC of", "Europe/Rome", " Europe/Rome"), [false, false]);
        assert_eq!(both("x", "Asia", " As"), [true, true]);
        assert_eq!(both("x", "Asia", ""), [false, false]);
    }
}
