//! The cryptography of TLS connections.

use std::sync::{Arc, LazyLock};

use rustls::crypto::{CryptoProvider, aws_lc_rs};

static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| {
    let provider = aws_lc_rs::default_provider();
    // A process's first random number takes aws-lc 50 ms, in which it measures the jitter of the processor: no flood
    // is to go on for so long because the first connection to a firewall waits. A failure is the handshake's to report.
    let _ = provider.secure_random.fill(&mut [0; 32]);
    Arc::new(provider)
});

/// The provider, which is ready for use. The first call takes some 50 ms: make it at the start.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::clone(&PROVIDER)
}
