//! A JSON object whose keys are unique and keep their order. serde_json keeps the last of two equal keys instead.

use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// The entries of an object, in the order of the file.
#[derive(Clone, Debug)]
pub(crate) struct Entries<V>(pub Vec<(String, V)>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Entries<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Collect(PhantomData))
    }
}

struct Collect<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for Collect<V> {
    type Value = Entries<V>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Entries<V>, M::Error> {
        let mut seen = BTreeSet::new();
        let mut entries = Vec::new();
        while let Some((key, value)) = map.next_entry::<String, V>()? {
            if !seen.insert(key.clone()) {
                return Err(M::Error::custom(format!("the key `{key}` appears twice")));
            }
            entries.push((key, value));
        }
        Ok(Entries(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_order_and_are_unique() {
        let read = serde_json::from_str::<Entries<u8>>("{\"b\": 1, \"a\": 2}").unwrap();
        assert_eq!(read.0, [("b".to_string(), 1), ("a".to_string(), 2)]);
        assert!(serde_json::from_str::<Entries<u8>>("{\"b\": 1, \"b\": 2}").is_err());
        assert!(serde_json::from_str::<Entries<u8>>("[1]").is_err());
    }
}
