//! Emoji with their attributes: category, tags, skin tones, gender.

use std::collections::BTreeMap;

use etalon::error::Result;
use serde::Deserialize;

use super::unexpected;

/// The skin tones of Unicode, in the order of their code points.
pub(super) const TONES: [(&str, &str); 5] =
    [("1F3FB", "light"), ("1F3FC", "medium-light"), ("1F3FD", "medium"), ("1F3FE", "medium-dark"), ("1F3FF", "dark")];

/// Code points of a person of either gender, a man and a woman.
const PEOPLE: [[&str; 3]; 4] = [
    ["1F9D1", "1F468", "1F469"],
    ["1F9D2", "1F466", "1F467"],
    ["1F9D3", "1F474", "1F475"],
    ["1FAC5", "1F934", "1F478"],
];

/// Signs that follow a person: a man, a woman.
const SIGNS: [&str; 2] = ["2642", "2640"];

/// Who is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Gender {
    Neutral,
    Man,
    Woman,
}

/// An emoji.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Emoji {
    /// The name of its picture.
    pub image: String,
    /// Its code points without variation selectors.
    pub code: String,
    /// Its name.
    pub label: String,
    pub category: String,
    pub subcategory: String,
    pub tags: Vec<String>,
    /// Indices of its skin tones: none, one, or two for two people.
    pub tones: Vec<usize>,
    /// For the variant of a single person: who it is, and the code points without gender.
    pub role: Option<(Gender, String)>,
    /// Whether a man or a woman is shown.
    pub genders: [bool; 2],
    /// The emoji without skin tones; itself if it has none.
    pub base: usize,
}

#[derive(Deserialize)]
struct Listed {
    unified: String,
    image: String,
    category: String,
    subcategory: String,
    sort_order: i64,
    #[serde(default)]
    skin_variations: BTreeMap<String, Variation>,
}

#[derive(Deserialize)]
struct Variation {
    unified: String,
    image: String,
}

#[derive(Deserialize)]
struct Annotated {
    hexcode: String,
    label: String,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    skins: Vec<Annotated>,
}

/// Reads the list of emoji and their annotations; every base is followed by its skin tones.
pub(super) fn read(list: &[u8], annotations: &[u8]) -> Result<Vec<Emoji>> {
    let mut listed: Vec<Listed> = serde_json::from_slice(list).map_err(|error| unexpected("emoji.json", error))?;
    let annotated: Vec<Annotated> =
        serde_json::from_slice(annotations).map_err(|error| unexpected("data.json", error))?;
    let mut labels = BTreeMap::new();
    for one in &annotated {
        labels.insert(plain(&one.hexcode), (&one.label, &one.tags));
        for skin in &one.skins {
            labels.insert(plain(&skin.hexcode), (&skin.label, &one.tags));
        }
    }
    listed.sort_by(|a, b| a.sort_order.cmp(&b.sort_order).then(a.unified.cmp(&b.unified)));
    let mut all: Vec<Emoji> = Vec::new();
    for one in &listed {
        let base = all.len();
        let base_code = plain(&one.unified);
        let Some(&(base_label, tags)) = labels.get(&base_code) else {
            return Err(unexpected("data.json", format!("no annotation of {base_code}")));
        };
        let variants = one.skin_variations.values().map(|variant| (plain(&variant.unified), &variant.image));
        for (code, image) in std::iter::once((base_code, &one.image)).chain(variants) {
            let label = labels.get(&code).map_or(base_label, |(label, _)| label);
            let role = role(&code);
            all.push(Emoji {
                image: image.clone(),
                label: label.clone(),
                category: one.category.clone(),
                subcategory: one.subcategory.clone(),
                tags: tags.clone(),
                tones: tones(&code),
                genders: genders(label, &one.category, role.as_ref().map(|(gender, _)| *gender)),
                role,
                code,
                base,
            });
        }
    }
    Ok(all)
}

/// Code points without variation selectors, in upper case.
fn plain(code: &str) -> String {
    let code = code.to_ascii_uppercase();
    code.split('-').filter(|point| *point != "FE0F").collect::<Vec<_>>().join("-")
}

fn tones(code: &str) -> Vec<usize> {
    let tone = |point: &str| TONES.iter().position(|(tone, _)| *tone == point);
    let mut tones: Vec<usize> = code.split('-').filter_map(tone).collect();
    tones.dedup();
    tones
}

/// Who a variant of a single person is, and its code points with the person of either gender.
fn role(code: &str) -> Option<(Gender, String)> {
    let points: Vec<&str> = code.split('-').collect();
    let genders = [Gender::Man, Gender::Woman];
    // A sign after a joiner: `1F3C3-200D-2642`.
    if let Some(at) =
        points.iter().position(|point| SIGNS.contains(point)).filter(|&at| at > 0 && points[at - 1] == "200D")
    {
        let gender = genders[usize::from(points[at] == SIGNS[1])];
        return Some((gender, [&points[..at - 1], &points[at + 1..]].concat().join("-")));
    }
    let person = |point: &str| PEOPLE.iter().find_map(|row| Some((row, row.iter().position(|other| *other == point)?)));
    let mut people = points.iter().enumerate().filter_map(|(at, point)| Some((at, person(point)?)));
    match (people.next(), people.next()) {
        (Some((0, (row, number))), None) => {
            let gender = [Gender::Neutral, Gender::Man, Gender::Woman][number];
            Some((gender, [&[row[0]], &points[1..]].concat().join("-")))
        }
        // Nobody with a gender, or several people.
        (None, _) => Some((Gender::Neutral, code.to_string())),
        _ => None,
    }
}

fn genders(label: &str, category: &str, role: Option<Gender>) -> [bool; 2] {
    match role {
        Some(Gender::Man) => [true, false],
        Some(Gender::Woman) => [false, true],
        _ if category != "People & Body" => [false, false],
        _ => {
            let words: Vec<String> =
                label.split(|c: char| !c.is_alphanumeric()).map(|word| word.to_ascii_lowercase()).collect();
            let any = |names: [&str; 4]| words.iter().any(|word| names.contains(&word.as_str()));
            [any(["man", "men", "boy", "boys"]), any(["woman", "women", "girl", "girls"])]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_name_the_person_and_what_is_left() {
        let role = |code: &str| role(code).map(|(gender, left)| format!("{gender:?} {left}"));
        assert_eq!(role("1F468-1F3FB-200D-1F680").unwrap(), "Man 1F9D1-1F3FB-200D-1F680");
        assert_eq!(role("1F9D1-200D-1F680").unwrap(), "Neutral 1F9D1-200D-1F680");
        assert_eq!(role("1F3C3-200D-2640-200D-27A1").unwrap(), "Woman 1F3C3-200D-27A1");
        assert_eq!(role("1F467").unwrap(), "Woman 1F9D2");
        assert_eq!(role("1F468-200D-2764-200D-1F468"), None);
        assert_eq!(role("1F600").unwrap(), "Neutral 1F600");
        // The sign itself is no person.
        assert_eq!(role("2640").unwrap(), "Neutral 2640");
    }

    #[test]
    fn variants_follow_their_base() {
        let list = br#"[
            {"unified": "1F600", "image": "1f600.png", "category": "Smileys & Emotion", "subcategory": "face-smiling", "sort_order": 2},
            {"unified": "1F44B", "image": "1f44b.png", "category": "People & Body", "subcategory": "hand", "sort_order": 1,
             "skin_variations": {"1F3FF": {"unified": "1F44B-1F3FF", "image": "1f44b-1f3ff.png"},
                                 "1F3FB": {"unified": "1F44B-1F3FB", "image": "1f44b-1f3fb.png"}}}]"#;
        let annotations = br#"[{"hexcode": "1F600", "label": "grinning face", "tags": ["face"]},
            {"hexcode": "1F44B-FE0F", "label": "waving hand", "tags": ["hand"], "skins": [
                {"hexcode": "1F44B-1F3FB", "label": "waving hand: light skin tone"}]}]"#;
        let all = read(list, annotations).unwrap();
        let shown: Vec<(&str, &str, &[usize], usize)> =
            all.iter().map(|one| (one.image.as_str(), one.label.as_str(), &one.tones[..], one.base)).collect();
        assert_eq!(
            shown,
            [
                ("1f44b.png", "waving hand", &[][..], 0),
                ("1f44b-1f3fb.png", "waving hand: light skin tone", &[0], 0),
                ("1f44b-1f3ff.png", "waving hand", &[4], 0),
                ("1f600.png", "grinning face", &[], 3),
            ]
        );
        assert!(read(list, b"[]").is_err());
    }

    #[test]
    fn names_show_the_gender_of_several_people() {
        assert_eq!(genders("woman and man holding hands", "People & Body", None), [true, true]);
        assert_eq!(genders("man's shoe", "Objects", Some(Gender::Neutral)), [false, false]);
        assert_eq!(genders("merman", "People & Body", Some(Gender::Man)), [true, false]);
    }
}
