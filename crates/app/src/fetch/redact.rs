//! Removes secrets from what clients print.

/// Parts of the names of variables whose values are secrets.
const SECRET_NAMES: [&str; 6] = ["TOKEN", "PASSWORD", "PASSWD", "SECRET", "AUTH", "API_KEY"];

/// Values shorter than this are no secrets, and replacing them would garble every message.
const SHORTEST_SECRET: usize = 6;

/// Replaces the values of secret variables of the environment, passwords in addresses, and tokens.
pub(super) fn redact(text: &str) -> String {
    let secret = |name: &str| SECRET_NAMES.iter().any(|part| name.to_ascii_uppercase().contains(part));
    let mut values: Vec<String> = std::env::vars_os()
        .filter(|(name, _)| secret(&name.to_string_lossy()))
        .map(|(_, value)| value.to_string_lossy().into_owned())
        .collect();
    values.sort();
    redact_values(text, &values)
}

fn redact_values(text: &str, secrets: &[String]) -> String {
    let mut text = text.to_string();
    for secret in secrets.iter().filter(|secret| secret.len() >= SHORTEST_SECRET) {
        text = text.replace(secret.as_str(), "***");
    }
    let words: Vec<String> = text.split(' ').map(redact_word).collect();
    words.join(" ")
}

fn redact_word(word: &str) -> String {
    // `https://user:password@host`: everything between `//` and `@` goes.
    if let Some((scheme, rest)) = word.split_once("://") {
        let end = rest.find('/').unwrap_or(rest.len());
        if let Some(at) = rest[..end].rfind('@') {
            return format!("{scheme}://***{}", &rest[at..]);
        }
    }
    match word.find("hf_").filter(|start| word.len() - start > 20) {
        Some(start) => {
            let token = word[start..].find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            format!("{}***{}", &word[..start], token.map_or("", |length| &word[start + length..]))
        }
        None => word.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_replaced() {
        let secrets = ["sesame-open".to_string(), "abc".to_string()];
        let text = "with sesame-open from https://me:pw@host/x and abc, token=hf_abcdefghijklmnopqrstuvwx.";
        let expected = "with *** from https://***@host/x and abc, token=***.";
        assert_eq!(redact_values(text, &secrets), expected);
        assert_eq!(redact_values("https://host/a@b hf_hub", &[]), "https://host/a@b hf_hub");
    }
}
