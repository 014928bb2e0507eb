//! What an architecture is, for people.

/// The card of an architecture: `etalon archs NAME` shows it.
#[derive(Debug)]
pub struct ArchCard {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// From activation to code to reconstruction.
    pub forward: &'static str,
    /// What training makes small.
    pub loss: &'static str,
    /// The weights before training.
    pub initialisation: &'static str,
    /// What is kept true of the weights.
    pub constraint: &'static str,
    /// The options that matter, with defaults.
    pub defaults: &'static str,
    /// What the presets change.
    pub presets: &'static str,
    /// Where it comes from.
    pub source: &'static str,
}

impl ArchCard {
    fn parts(&self) -> [(&'static str, &'static str); 7] {
        [
            ("forward", self.forward),
            ("loss", self.loss),
            ("initialisation", self.initialisation),
            ("constraint", self.constraint),
            ("defaults", self.defaults),
            ("presets", self.presets),
            ("source", self.source),
        ]
    }

    /// The card as text.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}: {}\n", self.name, self.summary);
        for (name, part) in self.parts() {
            text += &format!("\n{name}\n  {}\n", part.replace('\n', "\n  "));
        }
        text.trim_end().to_string()
    }

    /// The card as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        let mut json = serde_json::json!({"name": self.name, "summary": self.summary});
        for (name, part) in self.parts() {
            json[name] = part.into();
        }
        json
    }
}
