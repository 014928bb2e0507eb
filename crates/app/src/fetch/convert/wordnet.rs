//! WordNet: what the classes of ImageNet and of other data sets are.

use std::collections::{BTreeMap, BTreeSet};

use etalon::error::Result;

use super::super::archive::Archives;
use super::super::output::Output;
use super::synsets::{Synsets, ancestors, parse, wnid};
use super::unexpected;

/// The identifiers of the 1,000 classes of ImageNet, in the order of their numbers.
const IMAGENET: &str = include_str!("imagenet.txt");

/// The classes of CIFAR-10, and the synsets that they mean.
const CIFAR10: [(&str, u32); 10] = [
    ("airplane", 2_691_156),
    ("automobile", 2_958_343),
    ("bird", 1_503_061),
    ("cat", 2_121_620),
    ("deer", 2_430_045),
    ("dog", 2_084_071),
    ("frog", 1_639_765),
    ("horse", 2_374_451),
    ("ship", 4_194_289),
    ("truck", 4_490_091),
];

/// WordNet 3.0: all nouns, and tables of what classes are.
pub fn wordnet(archives: &Archives, output: &mut Output<'_>) -> Result<()> {
    convert(archives, output, IMAGENET, &CIFAR10)
}

fn convert(archives: &Archives, output: &mut Output<'_>, imagenet: &str, cifar: &[(&str, u32)]) -> Result<()> {
    let [nouns] = archives.read(0, ["usr/share/wordnet/data.noun"])?;
    let synsets = parse(&nouns)?;
    let mut lines = vec![["wnid", "words", "hypernyms", "gloss"].map(String::from)];
    for (&offset, synset) in &synsets {
        let above: Vec<String> = synset.above.iter().map(|&above| wnid(above)).collect();
        lines.push([wnid(offset), synset.words.join("|"), above.join("|"), synset.gloss.clone()]);
    }
    output.csv("nouns.csv", &lines)?;
    let mut classes = Vec::new();
    for line in imagenet.lines() {
        let offset = line.strip_prefix('n').and_then(|number| number.parse::<u32>().ok());
        let offset = offset
            .filter(|offset| synsets.contains_key(offset))
            .ok_or_else(|| unexpected("data.noun", format!("no synset {line}")))?;
        classes.push((class_name(&synsets, offset), offset));
    }
    let listed =
        classes.iter().enumerate().map(|(number, (name, offset))| [number.to_string(), wnid(*offset), name.clone()]);
    let header = ["class", "wnid", "name"].map(String::from);
    output.csv("imagenet-classes.csv", std::iter::once(header).chain(listed))?;
    let concepts = hierarchy(&synsets, output, "imagenet-hypernyms.csv", &classes)?;
    let cifar: Vec<(String, u32)> = cifar.iter().map(|(name, offset)| (name.to_string(), *offset)).collect();
    if let Some((name, _)) = cifar.iter().find(|(_, offset)| !synsets.contains_key(offset)) {
        return Err(unexpected("data.noun", format!("no synset of {name}")));
    }
    hierarchy(&synsets, output, "cifar10-hypernyms.csv", &cifar)?;
    output.count("synsets", synsets.len() as u64);
    output.count("ImageNet classes", classes.len() as u64);
    output.count("concepts above them", concepts);
    output.part("", "nouns.csv", None);
    output.part("imagenet", "imagenet-hypernyms.csv", None);
    output.part("imagenet-classes", "imagenet-classes.csv", None);
    output.part("cifar10", "cifar10-hypernyms.csv", None);
    Ok(())
}

/// The first word of a synset, as the lists of ImageNet name a class.
fn class_name(synsets: &Synsets, offset: u32) -> String {
    synsets.get(&offset).and_then(|synset| synset.words.first()).cloned().unwrap_or_default()
}

/// Writes a table with a line per class and a column per concept above at least two classes, but not above all. Of concepts
/// above the same classes, the most special one is kept. Returns the number of concepts.
fn hierarchy(synsets: &Synsets, output: &Output<'_>, name: &str, classes: &[(String, u32)]) -> Result<u64> {
    let mut below: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
    for (index, (_, offset)) in classes.iter().enumerate() {
        for above in ancestors(synsets, *offset) {
            below.entry(above).or_default().insert(index);
        }
    }
    let depth = |offset: u32| ancestors(synsets, offset).len();
    let mut kept: BTreeMap<&BTreeSet<usize>, u32> = BTreeMap::new();
    for (&above, members) in below.iter().filter(|(_, members)| members.len() > 1 && members.len() < classes.len()) {
        let other = kept.entry(members).or_insert(above);
        // Ties by the smaller offset, which comes first.
        if depth(above) > depth(*other) {
            *other = above;
        }
    }
    let mut columns: Vec<(u32, &BTreeSet<usize>)> = kept.into_iter().map(|(members, above)| (above, members)).collect();
    columns.sort();
    // Two synsets can have the same first word: `crane` is a bird and a machine.
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    columns.iter().for_each(|(above, _)| *names.entry(class_name(synsets, *above)).or_default() += 1);
    let title = |above: u32| match class_name(synsets, above) {
        name if names.get(&name).is_some_and(|&count| count > 1) => format!("{name} ({})", wnid(above)),
        name => name,
    };
    let header = std::iter::once("class".to_string()).chain(columns.iter().map(|(above, _)| title(*above)));
    let mut lines: Vec<Vec<String>> = vec![header.collect()];
    for (index, (class, _)) in classes.iter().enumerate() {
        let cells = columns.iter().map(|(_, members)| u8::from(members.contains(&index)).to_string());
        lines.push(std::iter::once(class.clone()).chain(cells).collect());
    }
    output.csv(name, &lines)?;
    Ok(columns.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{convert as run, deb, tar_bytes};
    use super::*;

    #[test]
    fn classes_have_the_concepts_above_them() {
        let nouns = b"00000001 03 n 01 entity 0 000 | e\n00000002 03 n 01 animal 0 001 @ 00000001 n 0000 | a\n\
            00000003 03 n 01 mammal 0 001 @ 00000002 n 0000 | m\n00000004 03 n 01 cat 0 001 @ 00000003 n 0000 | c\n\
            00000005 03 n 01 dog 0 001 @ 00000003 n 0000 | d\n00000006 03 n 02 motor_car 0 auto 0 001 @ 00000001 n 0000 | v\n";
        let package =
            deb(&[("debian-binary", b"2.0\n"), ("data.tar", &tar_bytes(&[("./usr/share/wordnet/data.noun", nouns)]))]);
        let small = |archives: &Archives, output: &mut Output<'_>| {
            convert(archives, output, "n00000004\nn00000005\nn00000006\n", &[("cat", 4), ("car", 6), ("dog", 5)])
        };
        let converted = run(small, &[("x.deb", package.clone())]).unwrap();
        // `entity` is above all, and `animal` above the same classes as `mammal`.
        assert_eq!(converted.text("imagenet-hypernyms.csv"), "class,mammal\ncat,1\ndog,1\nmotor_car,0\n");
        assert_eq!(converted.text("cifar10-hypernyms.csv"), "class,mammal\ncat,1\ncar,0\ndog,1\n");
        assert_eq!(converted.text("imagenet-classes.csv").lines().nth(3), Some("2,n00000006,motor_car"));
        assert_eq!(converted.text("nouns.csv").lines().nth(6), Some("n00000006,motor_car|auto,n00000001,v"));
        assert!(run(wordnet, &[("x.deb", package)]).is_err_and(|error| error.to_string().contains("n01440764")));
    }

    #[test]
    fn the_classes_of_imagenet_ascend() {
        let lines: Vec<&str> = IMAGENET.lines().collect();
        assert_eq!(lines.len(), 1000);
        assert!(lines.windows(2).all(|pair| pair[0] < pair[1]) && lines.iter().all(|line| line.len() == 9));
    }
}
