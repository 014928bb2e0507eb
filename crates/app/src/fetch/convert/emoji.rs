//! Emoji in two styles, with tags, and pairs that differ in one attribute.

use std::collections::{BTreeMap, BTreeSet};

use etalon::error::Result;
use etalon::labels::{Annotations, Concept, Label as Truth};
use etalon_models::data::{ConceptOptions, Concepts, Label};

use super::super::archive::{Archives, Unpacked};
use super::super::output::Output;
use super::emoji_attributes::{Emoji, Gender, read};
use super::emoji_pairs::{self, gender_name, shared_tags, tone_name};
use super::image_table::{self, TableImage, on_white};
use super::unexpected;

/// The styles, in the order of the packages.
const STYLES: [&str; 2] = ["google", "twitter"];

/// Minimum number of emoji with a tag.
const FEWEST: usize = 15;

/// Categories that are left out of the basic set: flags are tagged with countries only, components are parts of others.
const LEFT_OUT: [&str; 2] = ["Flags", "Component"];

/// Tags that name a gender. The attributes of pairs replace them, because emoji are tagged unevenly.
const GENDERED: [&str; 10] = ["man", "men", "woman", "women", "male", "female", "boy", "girl", "boys", "girls"];

/// Pictures by style and name.
type Pictures = BTreeMap<(usize, String), Vec<u8>>;

/// Emoji: the usual ones in either style, and all of them with their variants and pairs.
pub fn emoji(archives: &Archives, output: &mut Output<'_>) -> Result<()> {
    let [list] = archives.read(0, ["package/emoji.json"])?;
    let [annotations] = archives.read(2, ["package/en/data.json"])?;
    let emoji = read(&list, &annotations)?;
    let pictures = pictures(archives, output, &emoji)?;
    let usable: Vec<usize> = (0..emoji.len())
        .filter(|&index| emoji[index].base == index && !LEFT_OUT.contains(&emoji[index].category.as_str()))
        .collect();
    let tags = common_tags(&emoji, &usable);
    let tagged = |index: usize| -> Vec<String> {
        emoji[index].tags.iter().filter(|tag| tags.contains(tag.as_str())).cloned().collect()
    };
    for (style, name) in STYLES.iter().enumerate() {
        let rows: Vec<Row> = usable.iter().map(|&index| Row { style, index, tags: tagged(index) }).collect();
        let table = Table { emoji: &emoji, pictures: &pictures, rows };
        let folder = if style == 0 { String::new() } else { format!("{name}/") };
        let labels = table.write(output, &folder)?;
        if style == 0 {
            output.count("images", table.rows.len() as u64);
            output.count("concepts", labels.concepts() as u64);
        }
        let part = if style == 0 { "" } else { name };
        output.part(part, &format!("{folder}images.parquet"), Some(&format!("{folder}labels.csv")));
    }
    all(output, &emoji, &pictures, &tags)?;
    list_all(output, &emoji)
}

/// The pictures of every emoji in both styles, on white.
fn pictures(archives: &Archives, output: &Output<'_>, emoji: &[Emoji]) -> Result<Pictures> {
    let known: BTreeSet<&str> = emoji.iter().map(|one| one.image.as_str()).collect();
    let mut pictures = Pictures::new();
    for (style, name) in STYLES.iter().enumerate() {
        let prefix = format!("package/img/{name}/64/");
        archives.visit(style, &mut |member| {
            let Some(image) = member.name.strip_prefix(&prefix).map(str::to_string) else { return Ok(Unpacked::More) };
            if known.contains(image.as_str()) {
                output.check()?;
                pictures.insert((style, image), on_white(&member.read()?)?);
            }
            Ok(Unpacked::More)
        })?;
    }
    for (style, name) in STYLES.iter().enumerate() {
        if let Some(missing) = known.iter().find(|image| !pictures.contains_key(&(style, image.to_string()))) {
            return Err(unexpected(name, format!("no picture {missing}")));
        }
    }
    Ok(pictures)
}

/// The tags that enough emoji have.
fn common_tags(emoji: &[Emoji], usable: &[usize]) -> BTreeSet<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for tag in usable.iter().flat_map(|&index| &emoji[index].tags) {
        *counts.entry(tag).or_default() += 1;
    }
    counts.into_iter().filter(|(_, count)| *count >= FEWEST).map(|(tag, _)| tag.to_string()).collect()
}

/// A picture of a table.
struct Row {
    style: usize,
    index: usize,
    tags: Vec<String>,
}

struct Table<'a> {
    emoji: &'a [Emoji],
    pictures: &'a Pictures,
    rows: Vec<Row>,
}

impl Table<'_> {
    /// Writes images and labels into a folder.
    fn write(&self, output: &Output<'_>, folder: &str) -> Result<Annotations> {
        let mut labels = Concepts::new(&["category".to_string(), "tags".to_string()], output.budget())?;
        let ids: Vec<String> =
            self.rows.iter().map(|row| format!("{}/{}", STYLES[row.style], self.emoji[row.index].image)).collect();
        let mut images = Vec::with_capacity(self.rows.len());
        for (row, id) in self.rows.iter().zip(&ids) {
            let one = &self.emoji[row.index];
            let picture = self.pictures.get(&(row.style, one.image.clone()));
            let bytes = picture.ok_or_else(|| unexpected("a picture", &one.image))?;
            labels.push(id, &[Label::Value(one.category.clone()), Label::Tags(row.tags.clone())])?;
            let cells = vec![one.label.clone(), one.category.clone()];
            images.push(TableImage { bytes, id, cells, tags: &row.tags });
        }
        image_table::write(output, &format!("{folder}images.parquet"), &["caption", "category"], &images)?;
        let table = labels.finish(&ConceptOptions::default())?;
        output.write(&format!("{folder}labels.csv"), table.to_csv()?.as_bytes())?;
        Ok(table.labels)
    }
}

/// Every emoji in both styles with its attributes, and the pairs.
fn all(output: &mut Output<'_>, emoji: &[Emoji], pictures: &Pictures, tags: &BTreeSet<String>) -> Result<()> {
    let styles = STYLES.map(|style| format!("style: {style}"));
    let shared = shared_tags(emoji);
    let mut rows = Vec::new();
    for (style, style_name) in styles.iter().enumerate() {
        for (index, one) in emoji.iter().enumerate() {
            let kept = |tag: &&String| tags.contains(tag.as_str()) && !GENDERED.contains(&tag.as_str());
            let mut row_tags: Vec<String> = shared[index].iter().filter(kept).cloned().collect();
            row_tags.extend(one.tones.iter().map(|&tone| tone_name(tone)));
            let genders = [Gender::Man, Gender::Woman].into_iter().zip(one.genders);
            row_tags.extend(genders.filter(|(_, shown)| *shown).map(|(gender, _)| gender_name(gender).to_string()));
            row_tags.push(style_name.clone());
            rows.push(Row { style, index, tags: row_tags });
        }
    }
    let table = Table { emoji, pictures, rows };
    let labels = table.write(output, "all/")?;
    let pairs = emoji_pairs::all(emoji, &styles);
    let mut lines = vec![["before", "after", "added", "removed", "kind"].map(String::from)];
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for pair in &pairs {
        if changes(&labels, pair.before, pair.after) == Some((pair.added.as_str(), pair.removed.as_str())) {
            *counts.entry(pair.kind).or_default() += 1;
            let (before, after) = (pair.before.to_string(), pair.after.to_string());
            lines.push([before, after, pair.added.clone(), pair.removed.clone(), pair.kind.to_string()]);
        }
    }
    output.csv("all/pairs.csv", &lines)?;
    output.count("images with variants", table.rows.len() as u64);
    for (kind, count) in &counts {
        output.count(&format!("{kind} pairs"), *count);
    }
    output.count("pairs with other changes, left out", (pairs.len() + 1 - lines.len()) as u64);
    output.part("all", "all/images.parquet", Some("all/labels.csv"));
    output.pairs("all/pairs.csv");
    Ok(())
}

/// The concepts that a row gains and loses to become another; `None` if there is more than one of either.
fn changes(labels: &Annotations, before: usize, after: usize) -> Option<(&str, &str)> {
    let (mut added, mut removed) = ("", "");
    for (index, name) in labels.names().iter().enumerate() {
        let has = |row: usize| labels.label(row, Concept(index as u32)) == Truth::Yes;
        let changed = match (has(before), has(after)) {
            (false, true) => &mut added,
            (true, false) => &mut removed,
            _ => continue,
        };
        if !std::mem::replace(changed, name.as_str()).is_empty() {
            return None;
        }
    }
    Some((added, removed))
}

/// A table of all emoji with everything that is known about them.
fn list_all(output: &Output<'_>, emoji: &[Emoji]) -> Result<()> {
    let header = ["image", "name", "category", "subcategory", "tags", "skin_tones", "man", "woman"];
    let mut lines = vec![header.map(String::from)];
    for one in emoji {
        let tones: Vec<String> = one.tones.iter().map(|&tone| tone_name(tone)).collect();
        let [man, woman] = one.genders.map(|shown| u8::from(shown).to_string());
        let (category, subcategory) = (one.category.clone(), one.subcategory.clone());
        lines.push([
            one.image.clone(),
            one.label.clone(),
            category,
            subcategory,
            one.tags.join("|"),
            tones.join("|"),
            man,
            woman,
        ]);
    }
    output.csv("emoji.csv", &lines)
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{convert, tgz};
    use super::super::image_table::png;
    use super::*;

    /// Packages with 16 tagged faces, a runner with tones and genders, and a flag.
    fn packages() -> Vec<(&'static str, Vec<u8>)> {
        let mut list = Vec::new();
        let mut notes = Vec::new();
        let mut images = Vec::new();
        for face in 0..16 {
            let code = format!("1F60{face:X}");
            let image = format!("{}.png", code.to_lowercase());
            list.push(serde_json::json!({"unified": code, "image": image, "category": "Smileys & Emotion",
                "subcategory": "face", "sort_order": face}));
            notes.push(serde_json::json!({"hexcode": code, "label": format!("face {face}"), "tags": ["face", format!("t{face}")]}));
            images.push(image);
        }
        for (code, label, tags) in
            [("1F3C3", "person running", vec!["run"]), ("1F3C3-200D-2642-FE0F", "man running", vec!["man", "face"])]
        {
            let skin = code.replacen("1F3C3", "1F3C3-1F3FB", 1);
            let (image, skin_image) = (format!("{}.png", code.to_lowercase()), format!("{}.png", skin.to_lowercase()));
            list.push(serde_json::json!({"unified": code, "image": image, "category": "People & Body", "subcategory": "activity",
                "sort_order": 100 + list.len(), "skin_variations": {"1F3FB": {"unified": skin, "image": skin_image}}}));
            notes.push(serde_json::json!({"hexcode": code, "label": label, "tags": tags}));
            images.extend([image, skin_image]);
        }
        list.push(serde_json::json!({"unified": "1F3C1", "image": "1f3c1.png", "category": "Flags", "subcategory": "flag", "sort_order": 200}));
        notes.push(serde_json::json!({"hexcode": "1F3C1", "label": "chequered flag"}));
        images.push("1f3c1.png".into());
        let style = |name: &str, value: u8| {
            let picture = png(1, 1, &[value; 3]).unwrap();
            let names: Vec<String> = images.iter().map(|image| format!("package/img/{name}/64/{image}")).collect();
            let json = serde_json::to_vec(&list).unwrap();
            let mut members: Vec<(&str, &[u8])> = vec![("package/emoji.json", &json)];
            members.extend(names.iter().map(|name| (name.as_str(), picture.as_slice())));
            members.push(("package/img/google/sheets/16.png", b"not read"));
            tgz(&members)
        };
        let data = serde_json::to_vec(&notes).unwrap();
        vec![
            ("g.tgz", style("google", 1)),
            ("t.tgz", style("twitter", 2)),
            ("e.tgz", tgz(&[("package/en/data.json", &data)])),
        ]
    }

    #[test]
    fn tables_labels_and_pairs_agree() {
        let converted = convert(emoji, &packages()).unwrap();
        let labels = converted.text("labels.csv");
        // Only `face` is frequent enough; the flag and the variants are left out.
        assert_eq!(labels.lines().next(), Some("sample,People & Body,Smileys & Emotion,face"));
        assert_eq!(labels.lines().count(), 1 + 18);
        let all = converted.text("all/labels.csv");
        let header = "sample,Flags,People & Body,Smileys & Emotion,face,gender: man,skin tone: light,style: google,style: twitter";
        assert_eq!(all.lines().next(), Some(header));
        // 21 emoji in two styles. Rows 16 to 19: the runner, with a tone, the man, with a tone. All share `face`.
        assert_eq!(all.lines().count(), 1 + 2 * 21);
        assert_eq!(all.lines().nth(1 + 19), Some("google/1f3c3-1f3fb-200d-2642-fe0f.png,0,1,0,1,1,1,1,0"));
        let pairs = converted.text("all/pairs.csv");
        let lines: Vec<&str> = pairs.lines().collect();
        assert_eq!(
            lines[1..5],
            [
                "16,17,skin tone: light,,skin tone",
                "18,19,skin tone: light,,skin tone",
                "16,18,gender: man,,gender",
                "17,19,gender: man,,gender",
            ]
        );
        assert_eq!(lines[9], "0,21,style: twitter,style: google,style");
        assert_eq!(lines.len(), 1 + 2 * 4 + 21);
        let table = etalon::input::read_table(
            std::path::Path::new(&converted.path("all/pairs.csv")),
            &etalon::context::Budget::new(1 << 24),
        )
        .unwrap();
        let names: Vec<String> = header.split(',').skip(1).map(String::from).collect();
        let pairs = etalon::labels::PairSet::from_table(&table, Some(&names)).unwrap();
        pairs.check(42, names.len()).unwrap();
        assert_eq!(converted.parts, ["", "twitter", "all"]);
    }

    #[test]
    fn a_missing_picture_is_named() {
        let mut packages = packages();
        packages[1].1 = tgz(&[("package/emoji.json", b"[]")]);
        assert!(convert(emoji, &packages).is_err_and(|error| error.to_string().contains("no picture")));
    }
}
