//! Minimum over a sliding window of time, kept in two halves.

use std::time::{Duration, Instant};

/// Minimum of the values of the last one to two `span`s.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowedMin<T> {
    span: Duration,
    since: Option<Instant>,
    previous: Option<T>,
    current: Option<T>,
}

impl<T: Copy + PartialOrd> WindowedMin<T> {
    /// No value yet.
    pub(crate) const fn new(span: Duration) -> Self {
        Self { span, since: None, previous: None, current: None }
    }

    /// Removes all values.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.span);
    }

    /// Adds a value; returns whether a new half begins with it.
    pub(crate) fn note(&mut self, now: Instant, value: T) -> bool {
        let begins =
            self.since.is_none_or(|since| now.saturating_duration_since(since) >= self.span);
        if begins {
            self.previous = self.current.take();
            self.since = Some(now);
        }
        if self.current.is_none_or(|least| value < least) {
            self.current = Some(value);
        }
        begins
    }

    /// The minimum.
    pub(crate) fn get(&self) -> Option<T> {
        match (self.previous, self.current) {
            (Some(a), Some(b)) => Some(if a < b { a } else { b }),
            (a, b) => a.or(b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minimum_expires_after_two_spans() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut least = WindowedMin::new(Duration::from_millis(10));
        assert_eq!(least.get(), None);
        assert!(least.note(at(0), 3));
        assert!(!least.note(at(5), 7));
        assert!(least.note(at(12), 9));
        assert_eq!(least.get(), Some(3));
        least.note(at(23), 8);
        assert_eq!(least.get(), Some(8));
    }
}
