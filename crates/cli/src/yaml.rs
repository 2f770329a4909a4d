//! JSON as YAML, for eyes. Texts are quoted as in JSON wherever YAML might read them otherwise.

use std::io::{self, Write};

use serde_json::Value;

pub(crate) fn write(out: &mut impl Write, value: &Value) -> io::Result<()> {
    node(out, value, 0)
}

fn node(out: &mut impl Write, value: &Value, depth: usize) -> io::Result<()> {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                write!(out, "{:indent$}{}:", "", scalar(key), indent = depth * 2)?;
                child(out, value, depth)?;
            }
            Ok(())
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                write!(out, "{:indent$}-", "", indent = depth * 2)?;
                child(out, item, depth)?;
            }
            Ok(())
        }
        leaf => writeln!(out, "{:indent$}{}", "", text(leaf), indent = depth * 2),
    }
}

fn child(out: &mut impl Write, value: &Value, depth: usize) -> io::Result<()> {
    let is_leaf = match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    };
    if is_leaf {
        return writeln!(out, " {}", text(value));
    }
    writeln!(out)?;
    node(out, value, depth + 1)
}

fn text(leaf: &Value) -> String {
    match leaf {
        Value::String(text) => scalar(text),
        other => other.to_string(),
    }
}

/// A word that YAML can only read as a text, or the text in quotes.
fn scalar(text: &str) -> String {
    let starts = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
    let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./".contains(&b));
    let lower = text.to_ascii_lowercase();
    let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    if starts && plain && !reserved.contains(&lower.as_str()) {
        text.to_owned()
    } else {
        Value::String(text.to_owned()).to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_yaml_would_misread_is_quoted() {
        let value = json!({
            "name": "v1", "on": true, "list": [1, { "a": "no" }], "empty": {}, "time": "12:30",
        });
        let mut out = Vec::new();
        write(&mut out, &value).unwrap();
        let expected = "empty: {}\nlist:\n  - 1\n  -\n    a: \"no\"\nname: v1\n\"on\": true\n\
                        time: \"12:30\"\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
