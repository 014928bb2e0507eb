//! A hash of the stored layout of a type, so that states need no version numbers.
//!
//! postcard writes neither names nor types, so bytes of an old layout may be read as a new one without an error.
//! [`hash`] deserializes the type from a tracing deserializer, which returns arbitrary values and records every
//! request: names and order of fields, types of values, names of variants.

use std::collections::BTreeMap;

use serde::de::value::Error;
use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, Visitor};

/// The hash of a type's layout.
pub fn hash<T: DeserializeOwned>() -> blake3::Hash {
    blake3::hash(describe::<T>().as_bytes())
}

/// The recorded requests, as text.
fn describe<T: DeserializeOwned>() -> String {
    let mut tracer = Tracer::default();
    // A trace visits one variant of each enum: repeat until all have been visited. A type that validates its values may
    // fail on the arbitrary ones; its requests up to then count.
    loop {
        tracer.again = false;
        let _ = T::deserialize(&mut tracer);
        if !tracer.again {
            return tracer.text;
        }
    }
}

/// Types that are nested more deeply are taken to be recursive.
const MAX_DEPTH: usize = 32;

#[derive(Default)]
struct Tracer {
    text: String,
    /// The next variant to visit, by enum.
    variants: BTreeMap<&'static str, usize>,
    /// Some enum has variants left.
    again: bool,
    depth: usize,
}

impl Tracer {
    fn record(&mut self, words: &[&str]) {
        self.text.push_str(&words.join(","));
        self.text.push(' ');
    }

    fn parts<'de, V: Visitor<'de>>(&mut self, words: &[&str], left: usize, visitor: V) -> Result<V::Value, Error> {
        if self.depth > MAX_DEPTH {
            return Err(de::Error::custom("recursive type"));
        }
        self.record(words);
        self.depth += 1;
        let value = visitor.visit_seq(Parts { tracer: self, left });
        self.depth -= 1;
        self.record(&["end"]);
        value
    }
}

/// The elements of a sequence, or the fields of a struct.
struct Parts<'a> {
    tracer: &'a mut Tracer,
    left: usize,
}

impl<'de> de::SeqAccess<'de> for Parts<'_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(&mut *self.tracer).map(Some)
    }
}

impl<'de> de::MapAccess<'de> for Parts<'_> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        de::SeqAccess::next_element_seed(self, seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(&mut *self.tracer)
    }
}

/// One variant of an enum.
struct Variant<'a>(&'a mut Tracer, usize);

impl<'de> de::EnumAccess<'de> for Variant<'_> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Error> {
        Ok((seed.deserialize((self.1 as u32).into_deserializer())?, self))
    }
}

impl<'de> de::VariantAccess<'de> for Variant<'_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Error> {
        self.0.parts(&["tuple"], length, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        self.0.parts(fields, fields.len(), visitor)
    }
}

/// Methods of a deserializer: name, arguments, and the value that they return.
macro_rules! methods {
    ($($method:ident($tracer:ident, $visitor:ident $(, $argument:ident: $type:ty)*) $body:expr;)*) => {
        $(fn $method<V: Visitor<'de>>(self, $($argument: $type,)* $visitor: V) -> Result<V::Value, Error> {
            let $tracer = self;
            $body
        })*
    };
}

/// Methods for single values, which are recorded by name.
macro_rules! values {
    ($($method:ident $visit:ident $value:expr;)*) => {
        methods! { $($method(tracer, visitor) {
            tracer.record(&[&stringify!($method)["deserialize_".len()..]]);
            visitor.$visit($value)
        };)* }
    };
}

type Name = &'static str;
type Names = &'static [&'static str];

impl<'de> Deserializer<'de> for &mut Tracer {
    type Error = Error;

    values! {
        deserialize_bool visit_bool false; deserialize_char visit_char 'a'; deserialize_str visit_str "";
        deserialize_i8 visit_i8 0; deserialize_i16 visit_i16 0; deserialize_i32 visit_i32 0; deserialize_i64 visit_i64 0;
        deserialize_u8 visit_u8 0; deserialize_u16 visit_u16 0; deserialize_u32 visit_u32 0; deserialize_u64 visit_u64 0;
        deserialize_i128 visit_i128 0; deserialize_u128 visit_u128 0;
        deserialize_f32 visit_f32 0.0; deserialize_f64 visit_f64 0.0; deserialize_string visit_str "";
        deserialize_bytes visit_bytes &[]; deserialize_byte_buf visit_bytes &[]; deserialize_identifier visit_str "";
    }

    methods! {
        deserialize_any(_tracer, _visitor) Err(de::Error::custom("postcard cannot store this"));
        deserialize_ignored_any(tracer, visitor) tracer.deserialize_any(visitor);
        deserialize_unit(_tracer, visitor) visitor.visit_unit();
        deserialize_unit_struct(_tracer, visitor, _name: Name) visitor.visit_unit();
        deserialize_option(tracer, visitor) { tracer.record(&["option"]); visitor.visit_some(tracer) };
        deserialize_newtype_struct(tracer, visitor, name: Name) { tracer.record(&[name]); visitor.visit_newtype_struct(tracer) };
        deserialize_seq(tracer, visitor) tracer.parts(&["seq"], 1, visitor);
        deserialize_map(tracer, visitor) { tracer.record(&["map"]); visitor.visit_map(Parts { tracer, left: 1 }) };
        deserialize_tuple(tracer, visitor, length: usize) tracer.parts(&["tuple"], length, visitor);
        deserialize_tuple_struct(tracer, visitor, name: Name, length: usize) tracer.parts(&[name], length, visitor);
        deserialize_struct(tracer, visitor, name: Name, fields: Names) {
            tracer.record(&[name]);
            tracer.parts(fields, fields.len(), visitor)
        };
        deserialize_enum(tracer, visitor, name: Name, variants: Names) {
            let next = tracer.variants.entry(name).or_insert(0);
            let variant = (*next).min(variants.len().saturating_sub(1));
            *next = variant + 1;
            tracer.again |= *next < variants.len();
            tracer.record(&[name, variants.get(variant).copied().unwrap_or_default()]);
            visitor.visit_enum(Variant(tracer, variant))
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize)]
    #[expect(dead_code)]
    struct One {
        a: Vec<f64>,
        b: Option<u32>,
    }

    #[derive(Deserialize)]
    #[expect(dead_code)]
    enum Kind {
        Word(String),
        Pair { left: u8, right: u8 },
        None,
    }

    mod renamed {
        #[derive(serde::Deserialize)]
        #[expect(dead_code)]
        pub struct One {
            pub a: Vec<f64>,
            pub c: Option<u32>,
        }
    }

    #[test]
    fn names_types_and_variants_change_the_hash() {
        assert_eq!(hash::<One>(), hash::<One>());
        assert_ne!(hash::<One>(), hash::<renamed::One>());
        assert_ne!(hash::<(One, u32)>(), hash::<(One, u64)>());
        let kinds = describe::<Kind>();
        assert!(["Word", "Pair", "left", "None"].iter().all(|word| kinds.contains(word)), "{kinds}");
    }
}
