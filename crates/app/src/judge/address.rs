//! What a user writes to name a server: `http://HOST[:PORT]/PATH#MODEL[,SETTING=VALUE...]`.

use std::net::IpAddr;
use std::time::Duration;

use etalon::error::{InputError, Key, Result};
use ureq::http::Uri;

/// A server, a model there, and how to ask it.
#[derive(Clone, Debug, PartialEq)]
pub struct Address {
    /// The base address, without a slash at the end.
    pub base: String,
    /// Whether the server is on this machine.
    pub is_local: bool,
    /// The name of the model.
    pub model: String,
    /// How to ask.
    pub settings: Settings,
}

/// How to ask a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The temperature of answers.
    pub temperature: f64,
    /// Tokens of all questions and answers of an evaluation together, at most.
    pub max_tokens: u64,
    /// Requests per minute at most; 0 for any number.
    pub per_minute: f64,
    /// How long an answer may take.
    pub timeout: Duration,
    /// How often a question is sent at most.
    pub attempts: usize,
    /// The time before a question is sent for the second time.
    pub wait: Duration,
    /// The directory of answers, instead of one in the cache.
    pub answers: Option<String>,
    /// The environment variable with the key.
    pub key: Option<String>,
}

const NAMES: [&str; 8] = ["temperature", "max-tokens", "per-minute", "timeout", "attempts", "wait", "answers", "key"];

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            temperature: 0.0,
            max_tokens: 5_000_000,
            per_minute: 0.0,
            timeout: Duration::from_secs(120),
            attempts: 6,
            wait: Duration::from_secs(1),
            answers: None,
            key: None,
        }
    }
}

fn form() -> String {
    "http://HOST:PORT/v1#MODEL, with settings such as `,max-tokens=100000` behind it".into()
}

impl Address {
    /// Reads an address; `None` if the text is none.
    pub fn parse(text: &str) -> Result<Option<Address>> {
        let lower = text.trim().to_ascii_lowercase();
        if !lower.starts_with("http://") && !lower.starts_with("https://") {
            return Ok(None);
        }
        let wrong = |what: &str| InputError::new(format!("{} {what}", Key("judge"))).expected(form());
        let (base, rest) = text.trim().split_once('#').unwrap_or((text.trim(), ""));
        // An address with a password or a key would be part of recipes. Do not repeat it.
        if base.contains('@') || base.contains('?') {
            return Err(wrong("has an address with a user name or a query, which can be secrets")
                .advice("put the key into an environment variable, `OPENAI_API_KEY` by default")
                .into());
        }
        if lower.starts_with("https://") && !cfg!(feature = "https") {
            return Err(wrong("needs TLS, and this program was built without it")
                .found(base)
                .advice("build it with `--features https`, or use a server with a plain http:// address, such as one on this machine")
                .into());
        }
        let uri: Uri = base.parse().map_err(|error| wrong("is not an address").found(format!("`{base}`: {error}")))?;
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| wrong("is an address without a host").found(base))?;
        let mut parts = rest.split(',').map(str::trim);
        let model = parts.next().unwrap_or_default();
        if model.is_empty() {
            return Err(wrong("names no model").found(base).advice("write the name of the model behind `#`").into());
        }
        let mut settings = Settings::default();
        for part in parts.filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            settings.set(name.trim(), value.trim())?;
        }
        let base = base.trim_end_matches('/');
        let base = base.strip_suffix("/chat/completions").unwrap_or(base).to_string();
        Ok(Some(Address { is_local: is_local(host), base, model: model.to_string(), settings }))
    }

    /// Where questions are sent.
    pub fn endpoint(&self) -> String {
        format!("{}/chat/completions", self.base)
    }

    /// What answers depend on.
    pub fn id(&self) -> String {
        format!("{} at {}, temperature {}", self.model, self.base, self.settings.temperature)
    }

    /// The name of a folder for the answers.
    pub fn folder(&self) -> String {
        let readable: String = self.model.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let readable: String = readable.chars().take(40).collect();
        format!("{readable}-{}", &blake3::hash(self.id().as_bytes()).to_hex()[..16])
    }
}

/// Whether a host is this machine.
fn is_local(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl Settings {
    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let number = |low: f64, high: f64| -> Result<f64> {
            let parsed = value.parse::<f64>().ok().filter(|number| (low..=high).contains(number));
            parsed.ok_or_else(|| {
                InputError::new(format!("setting `{name}` of {} is invalid", Key("judge")))
                    .expected(format!("a number from {low} to {high}"))
                    .found(format!("`{value}`"))
                    .into()
            })
        };
        match name {
            "temperature" => self.temperature = number(0.0, 10.0)?,
            "max-tokens" => self.max_tokens = number(1.0, 1e15)? as u64,
            "per-minute" => self.per_minute = number(0.0, 1e6)?,
            "timeout" => self.timeout = Duration::from_secs_f64(number(0.01, 86_400.0)?),
            "attempts" => self.attempts = number(1.0, 100.0)? as usize,
            "wait" => self.wait = Duration::from_secs_f64(number(0.001, 600.0)?),
            "answers" if !value.is_empty() => self.answers = Some(value.to_string()),
            "key" if !value.is_empty() => self.key = Some(value.to_string()),
            _ => {
                let error = InputError::new(format!("{} has an unknown or empty setting `{name}`", Key("judge")));
                return Err(error.one_of(name, &NAMES).into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        Address::parse(text).unwrap().unwrap()
    }

    fn refused(text: &str) -> String {
        Address::parse(text).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn addresses_have_a_model_and_settings() {
        let plain = address("http://127.0.0.1:8000/v1/#org/model-7b");
        assert_eq!((plain.base.as_str(), plain.model.as_str()), ("http://127.0.0.1:8000/v1", "org/model-7b"));
        assert_eq!(plain.endpoint(), "http://127.0.0.1:8000/v1/chat/completions");
        assert_eq!(address("http://h/v1/chat/completions#m").endpoint(), "http://h/v1/chat/completions");
        assert_eq!((plain.is_local, &plain.settings), (true, &Settings::default()));
        let more =
            address("http://host/v1#m,max-tokens=2e3, per-minute=30,timeout=0.5,attempts=2,key=MY_KEY,answers=a b");
        assert_eq!((more.settings.max_tokens, more.settings.attempts, more.is_local), (2000, 2, false));
        assert_eq!(more.settings.timeout, Duration::from_millis(500));
        assert_eq!((more.settings.key.as_deref(), more.settings.answers.as_deref()), (Some("MY_KEY"), Some("a b")));
        assert!(address("http://[::1]:1/#m").is_local && address("HTTP://LocalHost/v1#m").is_local);
        assert!(!address("http://localhost.example.org/#m").is_local);
        // Limits change no answer, so they are not part of the identity.
        assert_eq!(more.id(), "m at http://host/v1, temperature 0");
        assert_ne!(address("http://h/v1#m,temperature=1").folder(), address("http://h/v1#m").folder());
        assert_eq!(Address::parse("models/http").unwrap(), None);
    }

    #[test]
    fn wrong_addresses_are_explained() {
        assert!(refused("http://h/v1").contains("names no model"));
        assert!(refused("http:///v1#m").contains("address"));
        assert!(refused("http://h/v1#m,max_tokens=3").contains("did you mean `max-tokens`"));
        assert!(refused("http://h/v1#m,timeout=soon").contains("`timeout`"));
        let secret = refused("http://me:hunter2@h/v1#m");
        assert!(secret.contains("OPENAI_API_KEY") && !secret.contains("hunter2"), "{secret}");
        assert!(!refused("http://h/v1?api_key=hunter2#m").contains("hunter2"));
    }

    #[cfg(not(feature = "https"))]
    #[test]
    fn tls_is_a_feature() {
        assert!(refused("https://h/v1#m").contains("--features https"));
    }
}
