//! Chat templates: the Jinja program of a model that turns a conversation into a prompt.
//!
//! Templates are rendered as transformers does: blocks leave no lines behind, `raise_exception` and `strftime_now` exist, and
//! `tojson` writes JSON as Python does. They come from model files, so that steps, depth and output are limited.

use std::io::{self, Write};
use std::time::SystemTime;

use chrono::DateTime;
use chrono::format::{Item, StrftimeItems};
use etalon::error::{Error, InputError, Result};
use etalon::network::Message;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, ErrorKind};
use serde::Serialize;

/// The number of steps that a template may take.
const MOST_STEPS: u64 = 5_000_000;

/// How deep macros and blocks may be nested.
const DEEPEST: usize = 100;

/// The longest prompt, in bytes.
const LONGEST_PROMPT: usize = 1 << 24;

/// The chat template of a model.
#[derive(Clone, Debug)]
pub struct ChatTemplate {
    source: String,
    /// Names and texts of special tokens, such as `bos_token`.
    names: Vec<(String, String)>,
}

impl ChatTemplate {
    /// A template with the special tokens that it may use.
    pub(super) fn new(source: String, names: Vec<(String, String)>) -> ChatTemplate {
        ChatTemplate { source, names }
    }

    /// The text of the template.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The prompt of a conversation. With `add_generation_prompt` it ends where the answer of the model starts. Some
    /// templates contain the date, in UTC; see [`ChatTemplate::render_at`].
    pub fn render(&self, messages: &[Message], add_generation_prompt: bool) -> Result<String> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        self.render_at(messages, add_generation_prompt, now.map_or(0, |now| now.as_secs() as i64))
    }

    /// The prompt of a conversation at a time, in seconds since 1970.
    pub fn render_at(&self, messages: &[Message], add_generation_prompt: bool, seconds: i64) -> Result<String> {
        let environment = environment(seconds).map_err(refused)?;
        let source = without_generation_blocks(&self.source);
        let template = environment.template_from_str(&source).map_err(refused)?;
        let names = self.names.iter().map(|(name, text)| (name.as_str(), Value::from(text.as_str())));
        let message = |message: &Message| Value::from_pairs([("role", &*message.role), ("content", &*message.content)]);
        let given = [
            ("messages", messages.iter().map(message).collect()),
            ("add_generation_prompt", Value::from(add_generation_prompt)),
            ("tools", Value::from(())),
            ("documents", Value::from(())),
        ];
        let context = Value::from_pairs(given.into_iter().chain(names));
        let mut prompt = Limited(Vec::new());
        template.render_captured_to(context, &mut prompt).map_err(refused)?;
        String::from_utf8(prompt.0).map_err(|_| Error::Bug("a template wrote a part of a character".into()))
    }
}

/// The rules of transformers.
fn environment(seconds: i64) -> std::result::Result<Environment<'static>, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_fuel(Some(MOST_STEPS));
    environment.set_recursion_limit(DEEPEST);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_filter("tojson", to_json);
    environment.add_function("raise_exception", |message: String| -> std::result::Result<Value, minijinja::Error> {
        Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_function("strftime_now", move |format: String| date(&format, seconds));
    Ok(environment)
}

/// `strftime` in UTC.
fn date(format: &str, seconds: i64) -> std::result::Result<String, minijinja::Error> {
    let items: Vec<Item<'_>> = StrftimeItems::new(format).collect();
    let time = DateTime::from_timestamp(seconds, 0).filter(|_| !items.contains(&Item::Error));
    let invalid = || minijinja::Error::new(ErrorKind::InvalidOperation, format!("invalid date format {format:?}"));
    Ok(time.ok_or_else(invalid)?.format_with_items(items.into_iter()).to_string())
}

/// JSON as `json.dumps(value, ensure_ascii=False, indent=indent)` of Python writes it.
fn to_json(value: &Value, options: Kwargs) -> std::result::Result<Value, minijinja::Error> {
    let indent: Option<usize> = options.get("indent")?;
    // What else `json.dumps` takes does not change what templates print.
    let failed = |error: serde_json::Error| minijinja::Error::new(ErrorKind::BadSerialization, error.to_string());
    let mut bytes = Vec::new();
    match indent.map(|width| " ".repeat(width.min(16))) {
        Some(indent) => {
            let pretty = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
            value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, pretty)).map_err(failed)?;
        }
        None => value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, Spaced)).map_err(failed)?,
    }
    Ok(Value::from(String::from_utf8_lossy(&bytes).into_owned()))
}

/// A space after commas and colons.
struct Spaced;

impl serde_json::ser::Formatter for Spaced {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

/// `{% generation %}` marks the assistant's words for training; blocks of this name become blocks without effect.
fn without_generation_blocks(source: &str) -> String {
    let mut written = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at + 2);
        written.push_str(before);
        let (sign, tag) = tag.split_at(usize::from(tag.starts_with(['-', '+'])));
        written.push_str(sign);
        let word = tag.trim_start();
        let name = word.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or_default();
        rest = match name {
            "generation" | "endgeneration" => {
                written.push_str(if name == "generation" { " if true" } else { " endif" });
                word.get(name.len()..).unwrap_or_default()
            }
            _ => tag,
        };
    }
    written + rest
}

/// A prompt that may not become too long.
struct Limited(Vec<u8>);

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > LONGEST_PROMPT {
            return Err(io::Error::other("the prompt is longer than 16 MB"));
        }
        self.0.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn refused(error: minijinja::Error) -> Error {
    let source = std::error::Error::source(&error).map_or(String::new(), |source| format!(": {source}"));
    let line = error.line().map_or("the template".to_string(), |line| format!("line {line} of the template"));
    InputError::new("the chat template of the model does not accept the conversation")
        .found(format!("{error}{source}"))
        .at(line)
        .advice("many templates require that user and assistant alternate, and some allow no system message")
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(source: &str) -> Result<String> {
        let names = vec![("bos_token".to_string(), "<s>".to_string())];
        let messages = [Message::new("user", "Hi 'you' <b>"), Message::new("assistant", " yes ")];
        ChatTemplate::new(source.into(), names).render_at(&messages, true, 1_721_952_000)
    }

    #[test]
    fn blocks_leave_no_lines_and_python_methods_work() {
        let source = "{{ bos_token }}\n{% for m in messages %}\n  {% if loop.first %}\n[{{ m['role'] }}] {{ m.content }}\n  {% else %}\n{{ m.content.strip() | upper }}\n  {% endif %}\n{% endfor %}\n{% if add_generation_prompt %}A:{% endif %}";
        assert_eq!(rendered(source).unwrap(), "<s>\n[user] Hi 'you' <b>\nYES\nA:");
        assert_eq!(rendered("{{ messages[0] | tojson }}").unwrap(), r#"{"role": "user", "content": "Hi 'you' <b>"}"#);
        assert_eq!(rendered("{% if tools %}x{% endif %}{{ unknown_name }}").unwrap(), "");
    }

    #[test]
    fn dates_are_formatted() {
        assert_eq!(rendered("{{ strftime_now('%d %b %Y') }}").unwrap(), "26 Jul 2024");
        assert!(rendered("{{ strftime_now('%!') }}").unwrap_err().to_string().contains("date format"));
    }

    #[test]
    fn generation_blocks_have_no_effect() {
        let source = "{%- generation -%} a {%- endgeneration -%}{% if add_generation_prompt %}b{% endif %}{% set generations = 1 %}";
        assert_eq!(rendered(source).unwrap(), "ab");
    }

    #[test]
    fn templates_can_refuse_and_are_limited() {
        let why = |source: &str| rendered(source).unwrap_err().to_string();
        let error = why("\n{{ raise_exception('roles must alternate') }}");
        assert!(error.contains("roles must alternate") && error.contains("line 2"), "{error}");
        let endless = "{% for a in range(100000) %}{% for b in range(100000) %}{% set c = a %}{% endfor %}{% endfor %}";
        assert!(why(endless).contains("fuel"), "{}", why(endless));
        assert!(why("{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}").contains("recursion"));
        let long = "{% for a in range(1000) %}{{ 'x' * 100000 }}{% endfor %}";
        assert!(why(long).contains("16 MB"), "{}", why(long));
        assert!(why("{% if %}").contains("syntax"));
    }
}
