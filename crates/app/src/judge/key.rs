//! The key of a server. It is sent to that server, and appears nowhere else.

use std::fmt;

use etalon::error::{InputError, Result};

use super::address::Address;

/// The variable with the key, unless the user names another.
const VARIABLE: &str = "OPENAI_API_KEY";

/// A secret.
#[derive(Clone)]
pub struct ApiKey(String);

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl ApiKey {
    /// The key for a server. The key of the usual variable is not sent without encryption to another machine; the key of
    /// a variable that the user names is.
    pub fn find(address: &Address, variable: impl Fn(&str) -> Option<String>) -> Result<Option<ApiKey>> {
        let name = match &address.settings.key {
            Some(name) => name,
            None if address.is_local || address.base.to_ascii_lowercase().starts_with("https://") => VARIABLE,
            None => return Ok(None),
        };
        let value = variable(name).map(|value| value.trim().to_string()).filter(|value| !value.is_empty());
        match value {
            Some(value) if value.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(Some(ApiKey(value))),
            Some(_) => Err(InputError::new(format!("the key in the variable `{name}` cannot be sent"))
                .expected("letters, digits and punctuation of ASCII")
                .into()),
            None if address.settings.key.is_some() => {
                Err(InputError::new(format!("the variable `{name}` with the key of the judge is not set"))
                    .advice("set it to the key, or leave out the setting `key`")
                    .into())
            }
            None => Ok(None),
        }
    }

    /// The value of the header `Authorization`.
    pub fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// A text without the key: servers can repeat it.
    pub fn hide(key: Option<&ApiKey>, text: &str) -> String {
        match key {
            Some(key) => text.replace(&key.0, "***"),
            None => text.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_to_this_machine_or_where_the_user_says() {
        let find = |address: &str, value: &str| {
            let address = Address::parse(address).unwrap().unwrap();
            ApiKey::find(&address, |name| (name == "OPENAI_API_KEY").then(|| value.to_string()))
        };
        let local = find("http://127.0.0.1/v1#m", " sk-1 \n").unwrap().unwrap();
        assert_eq!((local.header().as_str(), format!("{local:?}").as_str()), ("Bearer sk-1", "***"));
        assert_eq!(ApiKey::hide(Some(&local), "your key sk-1 is wrong"), "your key *** is wrong");
        assert!(find("http://host/v1#m", "sk-1").unwrap().is_none());
        assert!(find("http://host/v1#m,key=OPENAI_API_KEY", "sk-1").unwrap().is_some());
        assert!(find("http://127.0.0.1/v1#m", "").unwrap().is_none());
        let text = |result: Result<Option<ApiKey>>| result.map(|_| ()).unwrap_err().to_string();
        assert!(text(find("http://host/v1#m,key=OTHER", "sk-1")).contains("`OTHER`"));
        let odd = text(find("http://127.0.0.1/v1#m", "sk\n1"));
        assert!(odd.contains("OPENAI_API_KEY") && !odd.contains("sk"), "{odd}");
    }
}
