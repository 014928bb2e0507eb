//! The fields of a result file in JSON. Tables are written and parsed without a tree of values, which would take several
//! times their memory.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::marker::PhantomData;

use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter};

use super::bootstrap::Interval;
use super::cells::Cells;
use super::recipe::{Profile, Recipe, ResultFile};
use super::scores::{Headline, Scores, Table};
use crate::error::{Error, InputError};

impl ResultFile {
    /// The JSON of a result file, which takes several times the memory of the result.
    pub fn to_json(&self) -> Result<Value, Error> {
        let fields = ResultFields { result: self, about: None, end: Some(None) };
        serde_json::to_value(fields).map_err(|error| Error::Bug(format!("result to JSON: {error}")))
    }

    /// Reads the JSON of a result file.
    pub fn from_json(value: &Value) -> Result<ResultFile, Error> {
        let fields = ParsedFields::deserialize(value);
        let fields = fields.map_err(|error| InputError::new("not a result file of Etalon").found(error))?;
        Ok(fields.into_result())
    }
}

/// A result with the metadata of its inputs.
pub(super) struct ResultFields<'a> {
    pub result: &'a ResultFile,
    /// The metadata; none for the result alone.
    pub about: Option<&'a BTreeMap<String, Value>>,
    /// Whether the run time is a field, and the checksum, if it is one.
    pub end: Option<Option<String>>,
}

impl Serialize for ResultFields<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let ResultFile { etalon, recipe, scores, seconds } = self.result;
        let mut map = out.serialize_map(None)?;
        map.serialize_entry("etalon", etalon)?;
        map.serialize_entry("metric", &recipe.metric)?;
        map.serialize_entry("version", &recipe.version)?;
        map.serialize_entry("profile", &recipe.profile)?;
        map.serialize_entry("seed", &recipe.seed)?;
        map.serialize_entry("params", &recipe.params)?;
        map.serialize_entry("inputs", &recipe.inputs)?;
        map.serialize_entry("headline", &Headlines(&scores.headline))?;
        map.serialize_entry("tables", &Tables(&scores.tables))?;
        map.serialize_entry("notes", &scores.notes)?;
        if let Some(about) = self.about {
            map.serialize_entry("about", about)?;
        }
        if let Some(check) = &self.end {
            map.serialize_entry("seconds", seconds)?;
            check.as_ref().map_or(Ok(()), |check| map.serialize_entry("check", check))?;
        }
        map.end()
    }
}

/// Headline numbers by key.
pub(crate) struct Headlines<'a>(pub &'a [Headline]);
/// Tables by axis.
struct Tables<'a>(&'a [Table]);
/// Columns by name.
struct Columns<'a>(&'a Table);

/// The fields of a headline number. A missing one is undefined.
#[derive(Serialize, Deserialize)]
struct HeadlineFields {
    #[serde(default)]
    value: Option<f64>,
    #[serde(default)]
    low: Option<f64>,
    #[serde(default)]
    high: Option<f64>,
    #[serde(default)]
    n: usize,
}

impl Serialize for Headlines<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_map(self.0.iter().map(|headline| {
            let (low, high) = (headline.interval.map(|i| i.low), headline.interval.map(|i| i.high));
            (&headline.key, HeadlineFields { value: headline.value, low, high, n: headline.n })
        }))
    }
}

impl Serialize for Tables<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_map(self.0.iter().map(|table| (&table.axis, Columns(table))))
    }
}

impl Serialize for Columns<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_map(self.0.columns.iter().map(|(name, cells)| (name, cells)))
    }
}

/// The fields of a result file as parsed.
#[derive(Deserialize)]
pub(super) struct ParsedFields {
    etalon: String,
    metric: String,
    version: u32,
    profile: Profile,
    seed: u64,
    params: BTreeMap<String, Value>,
    inputs: BTreeMap<String, String>,
    headline: Entries<HeadlineFields>,
    tables: Entries<Entries<Cells>>,
    notes: Vec<String>,
    #[serde(default)]
    seconds: Option<f64>,
    /// The metadata of the inputs.
    #[serde(default)]
    pub about: BTreeMap<String, Value>,
    /// The checksum, if there is one.
    #[serde(default)]
    pub check: Option<String>,
}

impl ParsedFields {
    /// The result, without metadata and checksum.
    pub fn into_result(self) -> ResultFile {
        let headline = |(key, fields): (String, HeadlineFields)| {
            let interval = fields.low.zip(fields.high).map(|(low, high)| Interval { low, high });
            Headline { key, value: fields.value, interval, n: fields.n }
        };
        let table = |(axis, columns): (String, Entries<Cells>)| Table { axis, columns: columns.0 };
        ResultFile {
            etalon: self.etalon,
            recipe: Recipe {
                metric: self.metric,
                version: self.version,
                profile: self.profile,
                seed: self.seed,
                params: self.params,
                inputs: self.inputs,
            },
            scores: Scores {
                headline: self.headline.0.into_iter().map(headline).collect(),
                tables: self.tables.0.into_iter().map(table).collect(),
                notes: self.notes,
            },
            seconds: self.seconds.unwrap_or(0.0),
        }
    }
}

/// The fields of one result, or of an array of several.
pub(super) struct OneOrMore(pub Vec<ParsedFields>);

impl<'de> Deserialize<'de> for OneOrMore {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<OneOrMore, D::Error> {
        struct Results;
        impl<'de> Visitor<'de> for Results {
            type Value = OneOrMore;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a result or a list of results")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OneOrMore, A::Error> {
                let one = ParsedFields::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(OneOrMore(vec![one]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<OneOrMore, A::Error> {
                Vec::deserialize(de::value::SeqAccessDeserializer::new(list)).map(OneOrMore)
            }
        }
        input.deserialize_any(Results)
    }
}

/// A map in the order of the file.
struct Entries<T>(Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Entries<T>, D::Error> {
        struct Pairs<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Pairs<T> {
            type Value = Entries<T>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<T>, A::Error> {
                let mut entries: Vec<(String, T)> = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        input.deserialize_map(Pairs(PhantomData))
    }
}

/// Writes the fields of the outermost object on lines of their own, and everything else compactly.
#[derive(Default)]
pub(super) struct FieldPerLine {
    depth: usize,
    /// Writes a comma instead of the end of the outermost object: more fields follow.
    unfinished: bool,
}

impl FieldPerLine {
    /// For an object to which more fields are added.
    pub fn unfinished() -> FieldPerLine {
        FieldPerLine { unfinished: true, ..FieldPerLine::default() }
    }
}

impl Formatter for FieldPerLine {
    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        CompactFormatter.begin_object(out)
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth -= 1;
        match self.depth {
            0 if self.unfinished => out.write_all(b","),
            0 => out.write_all(b"\n}\n"),
            _ => CompactFormatter.end_object(out),
        }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        CompactFormatter.begin_object_key(out, first)?;
        if self.depth == 1 { out.write_all(b"\n  ") } else { Ok(()) }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        CompactFormatter.begin_object_value(out)?;
        if self.depth == 1 { out.write_all(b" ") } else { Ok(()) }
    }
}
