//! Secrets that callers show.

/// Compares two secrets in a time that does not depend on how much of them agrees.
pub fn is_same(shown: &[u8], secret: &[u8]) -> bool {
    let differences = shown
        .iter()
        .zip(secret)
        .fold(0, |all, (one, other)| all | (one ^ other));
    shown.len() == secret.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_secret_is_the_same() {
        assert!(is_same(b"secret", b"secret"));
        for shown in ["", "s", "secre", "secrets", "Secret", "secreT"] {
            assert!(!is_same(shown.as_bytes(), b"secret"), "{shown}");
        }
    }
}
