//! Pairs of emoji that differ in one attribute: skin tone, gender, or the style of the drawing.

use std::collections::BTreeMap;

use super::emoji_attributes::{Emoji, Gender, TONES};

/// The attributes that pairs change, as concepts.
pub(super) fn tone_name(tone: usize) -> String {
    format!("skin tone: {}", TONES.get(tone).map_or("", |(_, name)| name))
}

/// The concept of a gender.
pub(super) fn gender_name(gender: Gender) -> &'static str {
    match gender {
        Gender::Man => "gender: man",
        Gender::Woman => "gender: woman",
        Gender::Neutral => "",
    }
}

/// A pair of emoji. Rows are indices into the list of emoji, or into it repeated for the second style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EmojiPair {
    pub kind: &'static str,
    pub before: usize,
    pub after: usize,
    pub added: String,
    pub removed: String,
}

/// All pairs; row `style * emoji.len() + index` shows an emoji in a style.
pub(super) fn all(emoji: &[Emoji], styles: &[String]) -> Vec<EmojiPair> {
    let mut pairs = Vec::new();
    for style in 0..styles.len() {
        let shift = style * emoji.len();
        for mut pair in tones(emoji).into_iter().chain(genders(emoji)) {
            pair.before += shift;
            pair.after += shift;
            pairs.push(pair);
        }
    }
    if let [first, second] = styles {
        pairs.extend((0..emoji.len()).map(|index| EmojiPair {
            kind: "style",
            before: index,
            after: emoji.len() + index,
            added: second.clone(),
            removed: first.clone(),
        }));
    }
    pairs
}

/// Every tone is added to the emoji without one, and replaced by the next tone; the darkest by the lightest.
fn tones(emoji: &[Emoji]) -> Vec<EmojiPair> {
    let mut variants: BTreeMap<usize, BTreeMap<usize, usize>> = BTreeMap::new();
    for (index, one) in emoji.iter().enumerate() {
        if let [tone] = one.tones[..] {
            variants.entry(one.base).or_default().insert(tone, index);
        }
    }
    let mut pairs = Vec::new();
    for (base, tones) in variants {
        let pair = |before, after, added, removed| EmojiPair { kind: "skin tone", before, after, added, removed };
        pairs.extend(tones.iter().map(|(&tone, &index)| pair(base, index, tone_name(tone), String::new())));
        for (&tone, &index) in &tones {
            let next = (tone + 1) % TONES.len();
            if let Some(&after) = tones.get(&next) {
                pairs.push(pair(index, after, tone_name(next), tone_name(tone)));
            }
        }
    }
    pairs
}

/// A man and a woman replace the person of either gender, and the woman the man.
fn genders(emoji: &[Emoji]) -> Vec<EmojiPair> {
    let mut families: BTreeMap<&str, BTreeMap<Gender, usize>> = BTreeMap::new();
    for (index, one) in emoji.iter().enumerate() {
        if let Some((gender, left)) = &one.role {
            families.entry(left).or_default().insert(*gender, index);
        }
    }
    let mut pairs = Vec::new();
    for roles in families.values() {
        for (from, to) in
            [(Gender::Neutral, Gender::Man), (Gender::Neutral, Gender::Woman), (Gender::Man, Gender::Woman)]
        {
            if let (Some(&before), Some(&after)) = (roles.get(&from), roles.get(&to)) {
                let (added, removed) = (gender_name(to).to_string(), gender_name(from).to_string());
                pairs.push(EmojiPair { kind: "gender", before, after, added, removed });
            }
        }
    }
    pairs
}

/// The tags of each emoji, shared by all variants of the same person: a tag of one of them is a tag of all.
pub(super) fn shared_tags(emoji: &[Emoji]) -> Vec<Vec<String>> {
    let key = |one: &Emoji| {
        // Without skin tones, so that a family has one list of tags in all of them.
        let left = one.role.as_ref().map_or(one.code.as_str(), |(_, left)| left);
        left.split('-').filter(|point| !TONES.iter().any(|(tone, _)| tone == point)).collect::<Vec<_>>().join("-")
    };
    let mut shared: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in emoji {
        let tags = shared.entry(key(one)).or_default();
        tags.extend(one.tags.iter().cloned());
        tags.sort();
        tags.dedup();
    }
    emoji.iter().map(|one| shared.get(&key(one)).cloned().unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emoji(code: &str, tones: &[usize], role: Option<(Gender, &str)>, base: usize, tags: &[&str]) -> Emoji {
        Emoji {
            image: format!("{code}.png"),
            code: code.into(),
            label: code.into(),
            category: "People & Body".into(),
            subcategory: String::new(),
            tags: tags.iter().map(|tag| tag.to_string()).collect(),
            tones: tones.to_vec(),
            role: role.map(|(gender, left)| (gender, left.to_string())),
            genders: [false, false],
            base,
        }
    }

    #[test]
    fn pairs_change_one_attribute() {
        let all_emoji = [
            emoji("A", &[], Some((Gender::Neutral, "A")), 0, &["x"]),
            emoji("A-1F3FB", &[0], Some((Gender::Neutral, "A-1F3FB")), 0, &["x"]),
            emoji("A-1F3FC", &[1], Some((Gender::Neutral, "A-1F3FC")), 0, &["x"]),
            emoji("M", &[], Some((Gender::Man, "A")), 3, &["y"]),
            emoji("W", &[], Some((Gender::Woman, "A")), 4, &[]),
        ];
        let styles = ["style: one".to_string(), "style: two".to_string()];
        let pairs = all(&all_emoji, &styles);
        let shown: Vec<String> = pairs
            .iter()
            .map(|pair| format!("{} {}>{} +{} -{}", pair.kind, pair.before, pair.after, pair.added, pair.removed))
            .collect();
        // Three pairs of tones and three of genders in each style, and five of styles.
        assert_eq!(shown.len(), 2 * (3 + 3) + 5);
        assert_eq!(
            shown[..6],
            [
                "skin tone 0>1 +skin tone: light -",
                "skin tone 0>2 +skin tone: medium-light -",
                "skin tone 1>2 +skin tone: medium-light -skin tone: light",
                "gender 0>3 +gender: man -",
                "gender 0>4 +gender: woman -",
                "gender 3>4 +gender: woman -gender: man",
            ]
        );
        assert_eq!(shown[6], "skin tone 5>6 +skin tone: light -");
        assert_eq!(shown[12], "style 0>5 +style: two -style: one");
        assert!(shared_tags(&all_emoji).iter().all(|tags| tags == &["x", "y"]));
    }
}
