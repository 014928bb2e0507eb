//! Questions and answers as chat completions, the format that many servers share.

use std::time::{Duration, SystemTime};

use etalon::error::{Error, InputError, Result};
use etalon::network::Question;
use serde_json::{Value, json};

use super::address::Address;
use super::key::ApiKey;
use super::pace::retry_after;

/// The largest answer of a server, in bytes.
pub const MAX_BYTES: u64 = 1 << 20;

/// Characters of a message of a server that are shown.
const SHOWN: usize = 300;

/// What came of a request.
pub enum Outcome {
    /// An answer.
    Answered(String),
    /// A failure that may pass.
    Failed {
        /// What happened.
        why: String,
        /// When the server wants to be asked again.
        after: Option<Duration>,
        /// Whether no server was reached at all.
        is_unreachable: bool,
    },
    /// A failure that will not pass.
    Refused(InputError),
}

/// The body of a request.
pub fn body(question: &Question, address: &Address) -> Result<String> {
    let messages = json!([{"role": "system", "content": question.system}, {"role": "user", "content": question.user}]);
    let body = json!({
        "model": address.model, "messages": messages, "max_tokens": question.tokens,
        "temperature": address.settings.temperature, "stream": false,
    });
    serde_json::to_string(&body).map_err(|error| Error::Bug(format!("JSON: {error}")))
}

/// The response of a server.
pub struct Response {
    /// The status.
    pub status: u16,
    /// The header `Retry-After`.
    pub retry_after: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

/// Reads a response.
pub fn outcome(response: &Response, address: &Address, key: Option<&ApiKey>) -> Outcome {
    let text = String::from_utf8_lossy(&response.body);
    let parsed: Option<Value> = serde_json::from_str(&text).ok();
    let status = response.status;
    let said = || {
        let message = parsed.as_ref().and_then(|value| {
            let error = &value["error"];
            error["message"].as_str().or_else(|| error.as_str()).or_else(|| value["message"].as_str())
        });
        shown(&ApiKey::hide(key, message.unwrap_or(&text)))
    };
    match status {
        200 => match parsed.as_ref().and_then(content) {
            Some(answer) => Outcome::Answered(ApiKey::hide(key, answer.trim())),
            None => Outcome::Refused(
                InputError::new("the server of the judge did not answer with a chat completion")
                    .expected("JSON with `choices[0].message.content`")
                    .found(format!("`{}`", said()))
                    .at(address.endpoint())
                    .advice("check the address: it usually ends with /v1"),
            ),
        },
        408 | 409 | 425 | 429 | 500..=599 => Outcome::Failed {
            why: format!("status {status}: {}", said()),
            after: response.retry_after.as_deref().and_then(|header| retry_after(header, SystemTime::now())),
            is_unreachable: false,
        },
        _ => Outcome::Refused(
            InputError::new("the server of the judge refused a question")
                .expected("status 200")
                .found(format!("status {status}: {}", said()))
                .at(address.endpoint())
                .advice(match status {
                    401 | 403 => {
                        "set `OPENAI_API_KEY`, or the variable that the setting `key` names, to a valid key; over plain http to \
                         another machine only a key that `key` names is sent"
                    }
                    404 => "check the address, which usually ends with /v1, and the name of the model",
                    300..=399 => "write the address to which the server redirects",
                    _ => "check the name of the model and the settings of the judge",
                }),
        ),
    }
}

/// The text of a chat completion. A refusal, which has no content, is an empty answer.
fn content(value: &Value) -> Option<String> {
    let content = value.get("choices")?.get(0)?.get("message")?.get("content")?;
    match content {
        Value::String(text) => Some(text.clone()),
        Value::Null => Some(String::new()),
        Value::Array(parts) => Some(parts.iter().filter_map(|part| part["text"].as_str()).collect()),
        _ => None,
    }
}

/// The beginning of a text, on one line.
fn shown(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SHOWN).collect();
    if text.chars().count() > SHOWN { format!("{line}…") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_have_one_text() {
        let read = |text: &str| content(&serde_json::from_str(text).unwrap());
        let message = |content: &str| format!(r#"{{"choices": [{{"message": {{"content": {content}}}}}]}}"#);
        assert_eq!(read(&message(r#""1, 2""#)).as_deref(), Some("1, 2"));
        assert_eq!(read(&message("null")).as_deref(), Some(""));
        assert_eq!(read(&message(r#"[{"type": "text", "text": "a"}, {"text": "b"}]"#)).as_deref(), Some("ab"));
        for nonsense in [r#"{"choices": []}"#, "[]", "3", &message("7"), r#"{"error": {"message": "no"}}"#] {
            assert_eq!(read(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn messages_of_servers_are_short() {
        assert_eq!(shown("a\nb"), "a b");
        assert_eq!(shown(&"x".repeat(1000)).chars().count(), SHOWN + 1);
    }
}
