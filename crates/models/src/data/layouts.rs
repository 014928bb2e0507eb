//! Published data sets of labelled texts: where texts, classes and groups are, and how many samples SAEBench takes of each.

/// A published data set, recognised by the name in front of its path: `ag_news:DIR`.
#[derive(Debug)]
pub(super) struct DataLayout {
    /// The name.
    pub name: &'static str,
    /// Names of the column of texts; in a table with a text per language, what is in front of the language.
    pub text: &'static [&'static str],
    /// Where classes are.
    pub class: ClassSource,
    /// The name of the label of classes.
    pub class_column: &'static str,
    /// The column of groups that every class has equally many samples of.
    pub group: Option<&'static str>,
    /// Names of the classes 0, 1, …
    pub class_names: &'static [&'static str],
    /// Names of the groups, by their values.
    pub group_names: &'static [(&'static str, &'static str)],
    /// The classes, unless others are given; empty for all.
    pub classes: &'static [&'static str],
    /// Shortest text in characters, before its beginning is cut.
    pub shortest: usize,
    /// Characters that are cut from the beginning of a text.
    pub cut: usize,
    /// Samples are drawn from the first records of a class, one more than are needed, and not from official parts.
    pub is_first: bool,
}

/// Where the class of a text is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClassSource {
    /// In a column.
    Column(&'static str),
    /// In the name of the folder of the table: `en-fr` has the language `en`.
    Folder,
}

/// Samples of a class that SAEBench takes: 2,000 to train and 500 to test.
pub(super) const PER_CLASS: u64 = 2500;

/// A data set of tables with a text and a class column; every other field is replaced where it differs.
const PLAIN: DataLayout = DataLayout {
    name: "",
    text: &["text"],
    class: ClassSource::Column("label"),
    class_column: "label",
    group: None,
    class_names: &[],
    group_names: &[],
    classes: &[],
    shortest: 0,
    cut: 0,
    is_first: false,
};

/// The known data sets.
pub(super) static LAYOUTS: [DataLayout; 6] = [
    DataLayout {
        name: "bias_in_bios",
        text: &["hard_text", "text"],
        class: ClassSource::Column("profession"),
        class_column: "profession",
        group: Some("gender"),
        class_names: &[
            "accountant",
            "architect",
            "attorney",
            "chiropractor",
            "comedian",
            "composer",
            "dentist",
            "dietitian",
            "dj",
            "filmmaker",
            "interior_designer",
            "journalist",
            "model",
            "nurse",
            "painter",
            "paralegal",
            "pastor",
            "personal_trainer",
            "photographer",
            "physician",
            "poet",
            "professor",
            "psychologist",
            "rapper",
            "software_engineer",
            "surgeon",
            "teacher",
            "yoga_teacher",
        ],
        group_names: &[("0", "male"), ("1", "female")],
        ..PLAIN
    },
    DataLayout {
        name: "amazon_reviews",
        class: ClassSource::Column("category"),
        class_column: "category",
        group: Some("rating"),
        group_names: &[("1", "one_star"), ("5", "five_stars")],
        ..PLAIN
    },
    DataLayout {
        name: "amazon_sentiment",
        class: ClassSource::Column("rating"),
        class_column: "rating",
        classes: &["1", "5"],
        group_names: &[("1", "one_star"), ("5", "five_stars")],
        ..PLAIN
    },
    DataLayout { name: "ag_news", class_names: &["world", "sports", "business", "science"], ..PLAIN },
    DataLayout {
        name: "europarl",
        text: &["translation.", ""],
        class: ClassSource::Folder,
        class_column: "language",
        is_first: true,
        ..PLAIN
    },
    DataLayout {
        name: "github_code",
        text: &["code", "content"],
        class: ClassSource::Column("language"),
        class_column: "language",
        classes: &["C", "Python", "HTML", "Java", "PHP"],
        shortest: 535,
        cut: 150,
        is_first: true,
        ..PLAIN
    },
];

impl DataLayout {
    /// The name of a class or a group, by its value.
    pub fn class_name(&self, value: &str) -> String {
        let by_number = value.parse::<usize>().ok().and_then(|number| self.class_names.get(number));
        match by_number {
            Some(name) => name.to_string(),
            None if self.group.is_none() && !self.group_names.is_empty() => self.group_name(value),
            // Bare numbers of two columns would be confused.
            None if value.parse::<usize>().is_ok() => format!("{}_{value}", self.class_column),
            None => value.to_string(),
        }
    }

    /// The name of a group, by its value.
    pub fn group_name(&self, value: &str) -> String {
        let known = self.group_names.iter().find(|(other, _)| *other == value);
        known.map_or_else(|| value.to_string(), |(_, name)| name.to_string())
    }
}

/// The known data set in front of a path, and the path.
pub(super) fn layout_of(text: &str) -> Option<(&'static DataLayout, &str)> {
    let (name, path) = text.split_once(':')?;
    LAYOUTS.iter().find(|layout| layout.name == name).map(|layout| (layout, path))
}

/// Splits `NAME:PATH` where NAME is that of a published data set; otherwise everything is a path.
pub fn split_layout(text: &str) -> (Option<&str>, &str) {
    match layout_of(text) {
        Some((layout, path)) => (Some(layout.name), path),
        None => (None, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_layouts() {
        assert_eq!(split_layout("ag_news:some/folder"), (Some("ag_news"), "some/folder"));
        assert_eq!(split_layout("folder:x"), (None, "folder:x"));
        let (bios, _) = layout_of("bias_in_bios:x").unwrap();
        assert_eq!(
            (bios.class_names.len(), bios.class_name("21"), bios.group_name("1")),
            (28, "professor".into(), "female".into())
        );
        let name = |layout: &str, value: &str| layout_of(&format!("{layout}:x")).unwrap().0.class_name(value);
        assert_eq!(name("amazon_reviews", "3"), "category_3");
        assert_eq!(name("amazon_sentiment", "5"), "five_stars");
        assert_eq!((name("europarl", "de"), name("ag_news", "3")), ("de".into(), "science".into()));
    }
}
