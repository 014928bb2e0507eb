//! The questions that judges are asked: texts of the file `prompts.txt`, or of the user's own file.

use super::text::numbered;
use crate::error::{InputError, Key, Result};
use crate::network::Question;
use crate::run::Prompts;

/// The packaged texts.
const PACKAGED: &str = include_str!("prompts.txt");

/// Sections, with the places that they must have.
const SECTIONS: [(&str, &[&str]); 6] = [
    ("explain", &[]),
    ("explain request", &["{examples}"]),
    ("detect", &[]),
    ("detect request", &["{explanation}", "{examples}"]),
    ("marks", &[]),
    ("marks request", &["{explanation}", "{examples}"]),
];

/// The texts of questions.
pub(super) struct Questions {
    packaged: Prompts,
    own: Option<Prompts>,
    /// Tokens of an explanation at most.
    explanation_tokens: usize,
}

impl Questions {
    /// The packaged texts with the sections of the user's file in their place.
    pub fn new(own: Option<&Prompts>, explanation_tokens: usize) -> Result<Questions> {
        for name in own.into_iter().flat_map(Prompts::names) {
            let known: Vec<&str> = SECTIONS.iter().map(|(name, _)| *name).collect();
            let Some((_, places)) = SECTIONS.iter().find(|(other, _)| *other == name) else {
                let error = InputError::new(format!("{} has an unknown section `{name}`", Key("prompt")));
                return Err(error.one_of(name, &known).into());
            };
            let text = own.and_then(|own| own.get(name)).unwrap_or_default();
            if let Some(missing) = places.iter().find(|place| !text.contains(**place)) {
                return Err(InputError::new(format!("section `{name}` of {} is incomplete", Key("prompt")))
                    .expected(format!("a text with {}", places.join(" and ")))
                    .found(format!("no {missing}"))
                    .into());
            }
        }
        Ok(Questions { packaged: Prompts::parse(PACKAGED)?, own: own.cloned(), explanation_tokens })
    }

    fn text(&self, name: &str, places: &[(&str, &str)]) -> String {
        let own = self.own.as_ref().and_then(|own| own.get(name));
        fill(own.or_else(|| self.packaged.get(name)).unwrap_or_default(), places)
    }

    /// Asks for an explanation.
    pub fn explain(&self, examples: &[String]) -> Question {
        let tokens = self.explanation_tokens.to_string();
        let places =
            [("{examples}", numbered(examples)), ("{tokens}", tokens), ("{count}", examples.len().to_string())];
        let places: Vec<(&str, &str)> = places.iter().map(|(place, text)| (*place, text.as_str())).collect();
        Question {
            system: self.text("explain", &places),
            user: self.text("explain request", &places),
            tokens: self.explanation_tokens,
        }
    }

    /// Asks which windows an explanation fits.
    pub fn detect(&self, explanation: &str, examples: &[String], sample: &[usize]) -> Question {
        self.which("detect", explanation, examples, sample)
    }

    /// Asks in which windows the marks fit an explanation.
    pub fn marks(&self, explanation: &str, examples: &[String], sample: &[usize]) -> Question {
        self.which("marks", explanation, examples, sample)
    }

    fn which(&self, section: &str, explanation: &str, examples: &[String], sample: &[usize]) -> Question {
        let sample: Vec<String> =
            sample.iter().filter(|number| **number <= examples.len()).map(ToString::to_string).collect();
        let sample = if sample.is_empty() { "1".into() } else { sample.join(", ") };
        let (examples, count) = (numbered(examples), examples.len());
        let count_text = count.to_string();
        let places: [(&str, &str); 4] = [
            ("{explanation}", explanation),
            ("{examples}", &examples),
            ("{count}", &count_text),
            ("{sample}", &sample),
        ];
        Question {
            system: self.text(section, &places),
            user: self.text(&format!("{section} request"), &places),
            // As the released program: numbers of up to two digits with a comma, and some more.
            tokens: 2 * count + 5,
        }
    }
}

/// Fills the places of a text in one pass: texts that are filled in are not searched for places.
fn fill(text: &str, places: &[(&str, &str)]) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(start) = rest.find('{') {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        match places.iter().find(|(place, _)| rest.starts_with(place)) {
            Some((place, text)) => {
                out.push_str(text);
                rest = &rest[place.len()..];
            }
            None => {
                out.push('{');
                rest = &rest[1..];
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packaged_texts_have_all_sections_and_places() {
        let packaged = Prompts::parse(PACKAGED).unwrap();
        for (name, places) in SECTIONS {
            let text = packaged.get(name).unwrap();
            assert!(!text.is_empty() && places.iter().all(|place| text.contains(place)), "{name}");
        }
        assert_eq!(packaged.names().count(), SECTIONS.len());
    }

    #[test]
    fn places_are_filled_once() {
        let questions = Questions::new(None, 30).unwrap();
        let examples = ["a {count} b".to_string(), "c".into()];
        let asked = questions.detect("x {examples}", &examples, &[1, 9]);
        assert!(asked.user.contains("x {examples}") && asked.user.contains("1. a {count} b\n2. c"), "{}", asked.user);
        assert!(asked.system.contains("2 numbered pieces") && asked.system.contains("for example: 1\n"));
        assert_eq!((asked.tokens, questions.explain(&examples).tokens), (9, 30));
    }

    #[test]
    fn own_texts_replace_sections() {
        let own = Prompts::parse("[detect]\nSay numbers.\n").unwrap();
        let questions = Questions::new(Some(&own), 30).unwrap();
        assert_eq!(questions.detect("x", &["a".into()], &[]).system, "Say numbers.");
        let wrong =
            |text: &str| Questions::new(Some(&Prompts::parse(text).unwrap()), 30).map(|_| ()).unwrap_err().to_string();
        assert!(wrong("[detection]\nx").contains("did you mean `detect`"));
        assert!(wrong("[marks request]\n{examples}").contains("no {explanation}"));
    }
}
