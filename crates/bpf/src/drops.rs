//! Counters of dropped packets, by cause.

/// Defines a structure with one counter for each cause, in the order of the program's numbers.
macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Packets that were dropped, by cause.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Drops { $($(#[$doc])* pub $name: u64,)* }

        impl Drops {
            /// Names of the causes, in the order of the program's numbers.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            fn read(mut next: impl FnMut() -> Result<u64, Error>) -> Result<Self, Error> {
                Ok(Self { $($name: next()?),* })
            }

            /// Each cause's name and count.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }
    };
}
pub(crate) use causes;
