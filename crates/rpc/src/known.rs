//! Whether a message is one of this version.

use std::collections::BTreeMap;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _, IgnoredAny, Visitor, value::Error},
};

/// The name of a message, if it is none that `T` has. Asked only of what does not decode.
pub(crate) fn unknown_name<T: DeserializeOwned>(message: &[u8]) -> Option<String> {
    let name = match serde_json::from_slice(message).ok()? {
        Named::Alone(name) => name,
        Named::With(content) if content.len() == 1 => content.into_keys().next()?,
        Named::With(_) => return None,
    };
    let known = names::<T>();
    (!known.is_empty() && !known.contains(&name.as_str())).then_some(name)
}

/// As enums are written: the name, or the name with what belongs to it.
#[expect(clippy::zero_sized_map_values, reason = "a set would read them as a list")]
#[derive(Deserialize)]
#[serde(untagged)]
enum Named {
    Alone(String),
    With(BTreeMap<String, IgnoredAny>),
}

/// The names of an enum's variants, which its own code for reading tells.
fn names<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut asked = Asked(&[]);
    // It always fails: there is nothing to read.
    let _ = T::deserialize(&mut asked);
    asked.0
}

struct Asked(&'static [&'static str]);

impl<'de> Deserializer<'de> for &mut Asked {
    type Error = Error;

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Error> {
        self.0 = variants;
        Err(Error::custom("only the names were asked for"))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Error> {
        Err(Error::custom("no enum"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ToEngine;

    #[test]
    fn only_a_message_of_another_version_is_unknown() {
        let name = |text: &str| unknown_name::<ToEngine>(text.as_bytes());
        assert_eq!(name(r#"{"Dance":{"slowly":true}}"#).as_deref(), Some("Dance"));
        assert_eq!(name(r#""Dance""#).as_deref(), Some("Dance"));
        for text in [r#"{"Strike":{}}"#, r#""Apply""#, "", "{}", "[1]", r#"{"a":1,"b":2}"#] {
            assert_eq!(name(text), None, "{text}");
        }
    }
}
