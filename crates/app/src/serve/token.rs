//! The secret that authenticates the user who started the server.

use etalon::error::{Error, Result};

/// 128 random bits.
pub struct Token([u8; 16]);

impl Token {
    /// A new token from the operating system's random generator.
    pub fn new() -> Result<Token> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| Error::Bug(format!("no random bits: {error}")))?;
        Ok(Token(bytes))
    }

    /// The token in hexadecimal, as in the address.
    pub fn text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether `given` is the token, compared in constant time.
    pub fn is(&self, given: &str) -> bool {
        let own = self.text();
        let difference = own.bytes().zip(given.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
        given.len() == own.len() && std::hint::black_box(difference) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_complete_token_matches() {
        let token = Token::new().unwrap();
        let text = token.text();
        assert_eq!(text.len(), 32);
        assert!(token.is(&text));
        assert!(!token.is("") && !token.is(&text[..31]) && !token.is(&format!("{text}0")));
        assert!(!token.is(&text.replace(&text[..1], "x")));
        assert_ne!(Token::new().unwrap().text(), text);
    }
}
