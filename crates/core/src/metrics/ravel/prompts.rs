//! The prompts of the chosen attributes, and where the entity ends in their tokens.

use etalon_kernel::random::{permutation, stream};
use serde::{Deserialize, Serialize};

use super::answers::is_time_zone;
use super::settings::Settings;
use crate::error::{InputError, Key, Result, closest};
use crate::labels::{EntityKind, EntitySet, PromptSplit};
use crate::network::Tokenize;

/// Attributes that the released program evaluates; of other kinds, all are.
const RELEASED: [(&str, [&str; 3]); 2] =
    [("city", ["Country", "Continent", "Language"]), ("nobel_prize_winner", ["Country of Birth", "Field", "Gender"])];

/// An attribute of a kind of entities.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Attribute {
    pub kind: usize,
    pub name: String,
}

/// A template with an entity in it.
#[derive(Clone, Debug)]
pub(super) struct Prompt {
    /// Index of the attribute.
    pub attribute: usize,
    /// Index of the entity among those of all kinds.
    pub entity: usize,
    /// Index of the template among those of all attributes.
    pub template: usize,
    pub name: String,
    /// Texts before and after the entity.
    pub around: (String, String),
    pub label: String,
    /// Whether entity and template are for training; `None` if one is and the other is not.
    pub is_training: Option<bool>,
}

impl Prompt {
    pub fn text(&self) -> String {
        format!("{}{}{}", self.around.0, self.name, self.around.1)
    }
}

/// All prompts.
pub(super) struct Prompts {
    pub kinds: Vec<String>,
    pub attributes: Vec<Attribute>,
    pub prompts: Vec<Prompt>,
    pub entities: usize,
    pub notes: Vec<String>,
}

impl Prompts {
    /// The prompts of the chosen attributes: by kind, entity, attribute, template.
    pub fn new(set: &EntitySet, settings: &Settings, seed: u64) -> Result<Prompts> {
        let mut all =
            Prompts { kinds: Vec::new(), attributes: Vec::new(), prompts: Vec::new(), entities: 0, notes: Vec::new() };
        check_names(set, &settings.attributes)?;
        let mut templates = 0;
        for (number, kind) in set.kinds.iter().enumerate() {
            let names = chosen(kind, &settings.attributes);
            let mut attributes = Vec::new();
            for name in names {
                let attribute = kind.attribute(&name)?;
                let mut texts = attribute.templates.iter().map(|(before, after, _)| format!("{before}{after}"));
                if texts.all(|text| attribute.labels.iter().any(|label| is_time_zone(&text, label))) {
                    all.notes.push(format!(
                        "`{name}` of `{}` has time zones as labels, which are not judged: left out",
                        kind.name
                    ));
                    continue;
                }
                attributes.push(attribute);
            }
            if attributes.is_empty() {
                continue;
            }
            let first_attribute = all.attributes.len();
            let mut of_kind = Vec::new();
            for (index, (entity, entity_split)) in kind.entities()?.into_iter().enumerate() {
                let mut template = templates;
                for (offset, attribute) in attributes.iter().enumerate() {
                    for (before, after, split) in &attribute.templates {
                        let [entity_trains, template_trains] =
                            [entity_split, *split].map(|split| split == PromptSplit::Train);
                        of_kind.push(Prompt {
                            attribute: first_attribute + offset,
                            entity: all.entities + index,
                            template,
                            name: entity.to_string(),
                            around: (before.clone(), after.clone()),
                            label: attribute.labels[index].clone(),
                            is_training: (entity_trains == template_trains).then_some(entity_trains),
                        });
                        template += 1;
                    }
                }
            }
            all.entities += kind.entities()?.len();
            templates += attributes.iter().map(|attribute| attribute.templates.len()).sum::<usize>();
            let named =
                attributes.into_iter().map(|attribute| Attribute { kind: all.kinds.len(), name: attribute.name });
            all.attributes.extend(named);
            all.kinds.push(kind.name.clone());
            if settings.most_prompts > 0 && of_kind.len() > settings.most_prompts {
                let mut random = stream(seed, "ravel/prompts", number as u64);
                let mut kept = permutation(of_kind.len(), &mut random);
                kept.truncate(settings.most_prompts);
                kept.sort_unstable();
                of_kind = kept.into_iter().map(|index| of_kind[index].clone()).collect();
            }
            all.prompts.extend(of_kind);
        }
        if all.prompts.is_empty() {
            return Err(InputError::new("there are no prompts").expected("attributes other than time zones").into());
        }
        Ok(all)
    }

    /// The name of an attribute as the released program writes it.
    pub fn attribute_name(&self, attribute: usize) -> String {
        let Attribute { kind, name } = &self.attributes[attribute];
        format!("{}_{name}", self.kinds[*kind])
    }
}

/// Refuses names that no kind has.
fn check_names(set: &EntitySet, wanted: &[String]) -> Result<()> {
    let kinds = || set.kinds.iter().flat_map(|kind| kind.attributes().map(move |name| (kind.name.as_str(), name)));
    for wanted in wanted.iter().filter(|wanted| *wanted != "default") {
        let is_meant = |(kind, name): (&str, &str)| *wanted == name || *wanted == format!("{kind}:{name}");
        if !kinds().any(is_meant) {
            let known: Vec<String> = kinds().map(|(kind, name)| format!("{kind}:{name}")).collect();
            let names = known.iter().map(String::as_str).chain(kinds().map(|(_, name)| name));
            let error = InputError::new(format!(
                "the entities have no attribute `{wanted}`, which {} names",
                Key("attributes")
            ))
            .expected(format!("default, or some of {}", known.join(", ")));
            return Err(match closest(wanted, names) {
                Some(meant) => error.advice(format!("did you mean `{meant}`?")).into(),
                None => error.into(),
            });
        }
    }
    Ok(())
}

/// The attributes of a kind that the user chose: `NAME`, `KIND:NAME`, or `default`.
fn chosen(kind: &EntityKind, wanted: &[String]) -> Vec<String> {
    let released = RELEASED.iter().find(|(name, _)| *name == kind.name).map(|(_, attributes)| attributes.as_slice());
    let is_chosen = |name: &&str| {
        wanted.iter().any(|wanted| match wanted.split_once(':') {
            Some((of, wanted)) => of == kind.name && wanted == *name,
            None if wanted == "default" => released.is_none_or(|released| released.contains(name)),
            None => wanted == *name,
        })
    };
    kind.attributes().filter(is_chosen).map(str::to_string).collect()
}

/// The tokens of a prompt, and the last one of the entity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Tokens {
    pub tokens: Vec<u32>,
    pub position: usize,
}

impl Tokens {
    /// Tokenizes a prompt. The released program counts the tokens of the text behind the entity by itself, with special tokens: a
    /// token in front of it stands for the entity, and where there is none the position is one too late.
    pub fn new(prompt: &Prompt, tokenizer: &dyn Tokenize, released: bool) -> Result<Tokens> {
        let tokens = tokenizer.encode(&prompt.text(), true)?;
        let position = if released {
            let behind = tokenizer.encode(&prompt.around.1, true)?.len();
            // Counted from the end; −0 is the first token.
            if behind == 0 { 0 } else { tokens.len().saturating_sub(behind) }
        } else {
            last_of_entity(prompt, &tokens, tokenizer)?
        };
        Ok(Tokens { position: position.min(tokens.len().saturating_sub(1)), tokens })
    }
}

/// The first token up to which the text has the whole entity.
fn last_of_entity(prompt: &Prompt, tokens: &[u32], tokenizer: &dyn Tokenize) -> Result<usize> {
    let text = format!("{}{}", prompt.around.0, prompt.name);
    let alone = tokenizer.encode(&text, true)?;
    // Up to here the entity is not complete, or it just is.
    let shared = alone.iter().zip(tokens).take_while(|(a, b)| a == b).count();
    let wanted = text.trim();
    for position in shared.saturating_sub(1)..tokens.len() {
        if tokenizer.decode(&tokens[..=position])?.trim_start().starts_with(wanted) {
            return Ok(position);
        }
    }
    // The tokenizer changes the text.
    Ok(shared.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Message, NumberTokenizer};

    fn prompt(before: &str, name: &str, after: &str) -> Prompt {
        Prompt {
            attribute: 0,
            entity: 0,
            template: 0,
            name: name.into(),
            around: (before.into(), after.into()),
            label: String::new(),
            is_training: None,
        }
    }

    #[test]
    fn the_position_is_that_of_the_last_token_of_the_entity() {
        let position = |bos: Option<u32>, prompt: &Prompt, released: bool| {
            Tokens::new(prompt, &NumberTokenizer { size: 10, bos }, released).unwrap().position
        };
        // bos 3 4 5 6 7: the entity is 4 5.
        let middle = prompt("3 ", "4 5", " 6 7");
        assert_eq!((position(Some(1), &middle, false), position(Some(1), &middle, true)), (3, 3));
        // Without a first token the released program is one too late.
        assert_eq!((position(None, &middle, false), position(None, &middle, true)), (2, 3));
        // With nothing behind the entity it takes the first token then.
        let end = prompt("3 ", "4 5", "");
        assert_eq!((position(Some(1), &end, false), position(Some(1), &end, true)), (3, 3));
        assert_eq!((position(None, &end, false), position(None, &end, true)), (2, 0));
    }

    /// Letters are tokens, but `b,` is one.
    struct Letters;

    impl Tokenize for Letters {
        fn encode(&self, text: &str, _: bool) -> Result<Vec<u32>> {
            Ok(text.replace("b,", "#").chars().map(|c| c as u32).collect())
        }
        fn decode(&self, tokens: &[u32]) -> Result<String> {
            let text: String = tokens.iter().filter_map(|token| char::from_u32(*token)).collect();
            Ok(text.replace('#', "b,"))
        }
        fn token_text(&self, token: u32) -> Result<String> {
            self.decode(&[token])
        }
        fn bos(&self) -> Option<u32> {
            None
        }
        fn eos(&self) -> Option<u32> {
            None
        }
        fn pad(&self) -> Option<u32> {
            None
        }
        fn is_special(&self, _: u32) -> bool {
            false
        }
        fn size(&self) -> usize {
            256
        }
        fn chat(&self, _: &[Message]) -> Result<Option<String>> {
            Ok(None)
        }
    }

    #[test]
    fn a_token_may_reach_beyond_the_entity() {
        // x a # y: the entity `ab` ends in the third token.
        let tokens = Tokens::new(&prompt("x", "ab", ",y"), &Letters, false).unwrap();
        assert_eq!((tokens.tokens.len(), tokens.position), (4, 2));
    }
}
